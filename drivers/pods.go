package drivers

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"headroom/drivers/pods"
	"headroom/e2e/framework/input"
	"headroom/e2e/framework/strict"
)

// PodsFile is how the driver runs as pods, by its author's manifests.
type PodsFile struct {
	// Manifests are YAML files, relative to the definition's folder. Placeholders: ${DRIVER_NAME}, ${BACKEND}, ${NAMESPACE}, ${STATE_DIR}, ${SEED} and the
	// figures; $${ stands for a ${ of the driver's own.
	Manifests []string `yaml:"manifests"`
	// Images are archives as docker save writes them, relative to the definition's folder; they are loaded into the nodes, which pull all other images.
	Images []string `yaml:"images,omitempty"`
	// Node is the driver on each node: a DaemonSet.
	Node WorkloadFile `yaml:"node"`
	// Controller is the driver's controller: a Deployment or a StatefulSet. Left out, the node's pods serve controller calls, each for its own node.
	Controller *WorkloadFile `yaml:"controller,omitempty"`
}

// WorkloadFile is where in the manifests the driver runs.
type WorkloadFile struct {
	// Workload is a workload's kind and name, such as DaemonSet/mine-node.
	Workload string `yaml:"workload"`
	// Container is the driver's own container in it.
	Container string `yaml:"container"`
	// Socket is the path inside that container where the driver serves CSI.
	Socket string `yaml:"socket"`
	// Sidecars are further containers that Headroom replaces, where their images do not tell: a registrar, a livenessprobe, an attacher, a provisioner, a
	// resizer, a snapshotter.
	Sidecars []string `yaml:"sidecars,omitempty"`
}

// podsRun is a checked PodsFile.
type podsRun struct {
	manifests, images []string
	node              pods.Part
	controller        *pods.Part
}

func (in PodsFile) check(f *strict.File) *podsRun {
	if len(in.Manifests) == 0 {
		f.Fail("pods.manifests", "name the files that deploy the driver, such as [deploy/driver.yaml]", "has no files")
	}
	out := &podsRun{manifests: in.Manifests, images: in.Images, node: in.Node.check(f, "pods.node", "DaemonSet")}
	if in.Controller != nil {
		c := in.Controller.check(f, "pods.controller", "Deployment", "StatefulSet")
		out.controller = &c
		if in.Controller.Workload == in.Node.Workload {
			f.Fail("pods.controller.workload", "leave controller out where each node's pod serves controller calls", "%s is the node's workload", in.Node.Workload)
		}
	}
	return out
}

func (in WorkloadFile) check(f *strict.File, at string, kinds ...string) pods.Part {
	kind, name, _ := strings.Cut(in.Workload, "/")
	known := false
	for _, k := range kinds {
		known = known || k == kind
	}
	if !known || name == "" {
		f.Fail(at+".workload", "write its kind and name, such as "+kinds[0]+"/mine", "want %s and a name, got %q", strings.Join(kinds, " or "), in.Workload)
	}
	if !path.IsAbs(in.Socket) || path.Clean(in.Socket) != in.Socket {
		f.Fail(at+".socket", "write it as the driver has it, without unix://, such as /csi/csi.sock", "want an absolute path, got %q", in.Socket)
	}
	return pods.Part{Kind: kind, Name: name, Container: in.Container, Socket: in.Socket, Sidecars: in.Sidecars}
}

// HasPods says whether the definition can run the driver as pods of its author's.
func (d *Definition) HasPods() bool { return d.pods != nil }

// HasProcess says whether the definition can run the driver as processes.
func (d *Definition) HasProcess() bool { return len(d.node.words) > 0 }

// PodsHaveController says whether a workload of the pods is the controller.
func (d *Definition) PodsHaveController() bool { return d.pods != nil && d.pods.controller != nil }

// ControllerApart says whether the controller runs apart from the nodes where the driver runs in pods, whoever wrote them.
func (d *Definition) ControllerApart() bool {
	if d.HasPods() {
		return d.PodsHaveController()
	}
	return d.HasController()
}

// Pods are the objects that run the driver as pods. r says what a run adds; i has the placeholders' values.
func (d *Definition) Pods(i Instance, r pods.Run) (pods.Rendered, error) {
	values := map[string]string{"NAMESPACE": r.Namespace}
	for name, value := range d.values(i) {
		for _, known := range pods.Placeholders {
			if name == known {
				values[name] = value
			}
		}
	}
	objects, err := d.objects(values)
	if err != nil {
		return pods.Rendered{}, err
	}
	loaded, err := d.loaded()
	if err != nil {
		return pods.Rendered{}, err
	}
	r.Loaded = func(image string) bool { return loaded[pods.Normal(image)] != "" }
	return pods.Render(objects, d.pods.node, d.pods.controller, r)
}

// objects are those of the manifests.
func (d *Definition) objects(values map[string]string) ([]pods.Object, error) {
	var files []pods.File
	for _, name := range d.pods.manifests {
		b, err := d.read(name)
		if err != nil {
			return nil, err
		}
		files = append(files, pods.File{Name: d.place(name), Text: b})
	}
	return pods.Read(files, values)
}

// place is where a file of the definition is.
func (d *Definition) place(name string) string {
	if d.dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.dir, name)
}

func (d *Definition) read(name string) ([]byte, error) {
	if d.dir == "" {
		return builtIn.ReadFile(name)
	}
	return input.ReadRegular(d.place(name), "correct the path: it counts from the definition's folder")
}

// ImageArchives are the files of pods.images.
func (d *Definition) ImageArchives() (all []string) {
	if d.pods != nil {
		for _, name := range d.pods.images {
			all = append(all, d.place(name))
		}
	}
	return all
}

// loaded are the images of the archives, in full, with the archive that each is in.
func (d *Definition) loaded() (map[string]string, error) {
	all := map[string]string{}
	for _, file := range d.ImageArchives() {
		refs, err := pods.ReadArchive(file)
		if err != nil {
			return nil, err
		}
		for _, ref := range refs {
			all[ref] = file
		}
	}
	return all, nil
}

// PulledImages are the images that nodes pull for the driver's pods.
func (d *Definition) PulledImages() ([]string, error) {
	objects, err := d.objects(pods.AsWritten())
	if err != nil {
		return nil, err
	}
	loaded, err := d.loaded()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, image := range pods.Images(objects, d.pods.parts()...) {
		if loaded[pods.Normal(image)] == "" {
			all = append(all, image)
		}
	}
	return all, nil
}

func (p *podsRun) parts() []pods.Part {
	if p.controller == nil {
		return []pods.Part{p.node}
	}
	return []pods.Part{p.node, *p.controller}
}

// LintPods reads what the definition says of pods, its manifests and its images, and says all that is wrong. notes say what of the manifests is not applied.
func (d *Definition) LintPods() (notes []string, err error) {
	_, f := read(d.file, d.text)
	if err := errors.Join(d.lintPods(f), f.Err()); err != nil {
		return nil, err
	}
	return d.podNotes()
}

// podNotes say what of sound manifests is not applied.
func (d *Definition) podNotes() (notes []string, err error) {
	run := pods.Run{ID: "d", Name: "d", Namespace: "d", Node: pods.Blank("DaemonSet"), Controller: pods.Blank("Deployment"), Endpoint: pods.BlankEndpoint}
	r, err := d.Pods(Instance{DriverName: "d"}, run)
	for _, what := range r.Replaced {
		notes = append(notes, "pods: not applied: "+what)
	}
	return notes, err
}

// lintPods adds what is wrong in the definition to f; what is wrong in manifests is the error.
func (d *Definition) lintPods(f *strict.File) error {
	unread := false
	for i, name := range d.pods.manifests {
		if _, err := d.read(name); err != nil {
			unread = true
			fail(f, strict.At("pods.manifests", i), "correct the path: it counts from the definition's folder", err)
		}
	}
	loaded := map[string][]string{}
	for i, file := range d.ImageArchives() {
		refs, err := pods.ReadArchive(file)
		if err != nil {
			fail(f, strict.At("pods.images", i), "write it with docker save", err)
		}
		loaded[file] = refs
	}
	if unread {
		return nil
	}
	objects, err := d.objects(pods.AsWritten())
	if err != nil {
		return err // later problems would follow from these
	}
	images := pods.Images(objects, d.pods.parts()...)
	for i, file := range d.ImageArchives() {
		used := len(loaded[file]) == 0 // a problem already
		for _, image := range images {
			for _, ref := range loaded[file] {
				used = used || ref == pods.Normal(image)
			}
		}
		if !used {
			f.Fail(strict.At("pods.images", i), "tag the image as the manifests name it, or take it out", "has %s, and no container runs that: the manifests name %s",
				strings.Join(loaded[file], ", "), strings.Join(images, ", "))
		}
	}
	return pods.Check(objects, d.pods.node, d.pods.controller, d.Limit == LimitBackend, func(field, remedy, format string, args ...any) {
		f.Fail("pods."+field, remedy, format, args...)
	})
}

// fail notes what is wrong with a file that a field names. Where it cannot be read, the error knows better what to do.
func fail(f *strict.File, field, remedy string, err error) {
	if unreadable, ok := errors.AsType[*input.Error](err); ok {
		err, remedy = unreadable.Err, unreadable.Remedy
	}
	f.Fail(field, remedy, "%v", err)
}

// errNoProcess is for those who would start one.
func (d *Definition) errNoProcess() error {
	return fmt.Errorf("driver %q has pods only, and no node.command", d.Name)
}
