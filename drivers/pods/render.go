package pods

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels and annotations of what Render gives.
const (
	// DriverLabel has the driver's id, on every object and every pod; PartLabel has "node" or "controller", on the pods of those.
	DriverLabel = "headroom.dev/driver"
	PartLabel   = "headroom.dev/part"
	// NameKey has the driver's whole name, ContainerKey what the driver's container is called.
	NameKey      = "headroom.dev/driver-name"
	ContainerKey = "headroom.dev/driver-container"
)

// Run is what a run adds to a driver's manifests.
type Run struct {
	// ID is short and unique among drivers; Name is the CSI driver name; Namespace is the driver's own.
	ID, Name, Namespace string
	// Annotations are the namespace's.
	Annotations map[string]string
	// Node and Controller are the workloads that would run a driver that is a program: their containers but the first, its volumes, where its pods go. A
	// definition without a controller leaves Controller out.
	Node, Controller *unstructured.Unstructured
	// Endpoint is how those containers call the driver there.
	Endpoint string
	// Sockets is a directory that all nodes have, with a folder for each that has its name, for a definition without a controller: the drivers listen there,
	// where one gate reaches them all. Any driver may write to those folders.
	Sockets string
	// Token are the files of the controller's credentials.
	Token map[string]string
	// Loaded says whether the nodes have an image that no registry has.
	Loaded func(image string) bool
}

// Rendered are the objects of one driver, in the order of creating them.
type Rendered struct {
	Objects []Object
	// Socket is the path of the driver's socket in the folder of its node, where there are such; Shared is what of that folder the driver's container has.
	Socket, Shared string
	// Replaced says what of the manifests is not among them.
	Replaced []string
}

// Render makes the objects of one driver of what Read and Check found good, which it changes.
func Render(objects []Object, node Part, controller *Part, r Run) (Rendered, error) {
	var out Rendered
	renamed := map[string]bool{}
	for _, o := range objects {
		if k := kinds[o.GetKind()]; !k.namespaced && k.own == "" {
			renamed[o.String()] = true
		}
	}
	namespace := Object{&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": r.Namespace}}}, "", 0}
	for key, value := range r.Annotations {
		annotate(namespace.Object, key, value)
	}
	out.Objects = append(out.Objects, namespace)
	if controller != nil {
		out.Objects = append(out.Objects, r.token())
	}
	for _, o := range objects {
		k := kinds[o.GetKind()]
		if k.own != "" {
			out.Replaced = append(out.Replaced, fmt.Sprintf("%s: %s", o, k.own))
			continue
		}
		if workloads[o.GetKind()] {
			left, err := r.workload(o, node, controller, &out)
			if err != nil {
				return Rendered{}, err
			}
			if !left {
				continue
			}
			if spec := o.podSpec(); renamed["PriorityClass/"+fmt.Sprint(spec["priorityClassName"])] {
				spec["priorityClassName"] = r.named(fmt.Sprint(spec["priorityClassName"]))
			}
		}
		r.references(o, renamed)
		if k.namespaced {
			o.SetNamespace(r.Namespace)
		} else {
			o.SetName(r.named(o.GetName()))
		}
		out.Objects = append(out.Objects, o)
	}
	for _, o := range out.Objects {
		label(o.Object, DriverLabel, r.ID)
	}
	// What pods need is there before them.
	slices.SortStableFunc(out.Objects[1:], func(a, b Object) int { return order(a) - order(b) })
	return out, nil
}

func order(o Object) int {
	if workloads[o.GetKind()] {
		return 1
	}
	return 0
}

// named is an object's name where drivers of a run have no namespace to tell them apart.
func (r Run) named(name string) string { return name + "-" + r.ID }

// references makes bindings mean what they meant before objects were renamed and moved.
func (r Run) references(o Object, renamed map[string]bool) {
	if o.GetKind() != "RoleBinding" && o.GetKind() != "ClusterRoleBinding" {
		return
	}
	if ref := object(o.Object["roleRef"]); renamed[fmt.Sprintf("%v/%v", ref["kind"], ref["name"])] {
		ref["name"] = r.named(fmt.Sprint(ref["name"]))
	}
	for _, s := range objectsIn(o.Object["subjects"]) {
		if s["kind"] == "ServiceAccount" {
			s["namespace"] = r.Namespace
		}
	}
}

// token is a Secret of the credentials that added containers have: the pod's own are the author's.
func (r Run) token() Object {
	data := map[string]any{}
	for name, text := range r.Token {
		data[name] = text
	}
	return Object{&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": tokenVolume, "namespace": r.Namespace}, "stringData": data,
	}}, "", 0}
}

// workload changes one with pods. left is false when nothing of it is.
func (r Run) workload(o Object, node Part, controller *Part, out *Rendered) (left bool, err error) {
	part, added := Part{}, (*unstructured.Unstructured)(nil)
	role := ""
	switch {
	case o.String() == node.String():
		part, added, role = node, r.Node, "node"
	case controller != nil && o.String() == controller.String():
		part, added, role = *controller, r.Controller, "controller"
	}
	gone, left := o.dropSidecars(part.Container, part.Sidecars)
	out.Replaced = append(out.Replaced, gone...)
	if !left {
		return false, nil
	}
	label(o.template(), DriverLabel, r.ID)
	for _, c := range o.containers() {
		if r.Loaded != nil && r.Loaded(c.text("image")) {
			c["imagePullPolicy"] = "IfNotPresent"
		}
	}
	if role == "" {
		return true, nil
	}
	label(o.template(), PartLabel, role)
	annotate(o.template(), NameKey, r.Name)
	annotate(o.template(), ContainerKey, part.Container)
	if role == "controller" {
		// Headroom's attacher is on the control plane's node, and one of it is all that a driver has.
		object(o.Object["spec"])["replicas"] = int64(1)
		delete(o.podSpec(), "affinity")
		delete(o.podSpec(), "topologySpreadConstraints")
		delete(o.podSpec(), "nodeSelector")
	}
	at, err := r.graft(o, part, Object{added, "", 0})
	if err == nil && role == "node" && r.Sockets != "" {
		o.share(at, r.Sockets)
		out.Socket, out.Shared = path.Join(at.subPath, at.rest), at.subPath
	}
	return true, err
}

func label(o map[string]any, key, value string)    { put(o, "labels", key, value) }
func annotate(o map[string]any, key, value string) { put(o, "annotations", key, value) }

func put(o map[string]any, field, key, value string) {
	metadata := object(o["metadata"])
	if metadata == nil {
		metadata = map[string]any{}
		o["metadata"] = metadata
	}
	m := object(metadata[field])
	if m == nil {
		m = map[string]any{}
		metadata[field] = m
	}
	m[key] = value
}

// Images are those that are left of the objects' pods once sidecars are gone, without doubles, in order.
func Images(objects []Object, parts ...Part) (all []string) {
	for _, o := range objects {
		if !workloads[o.GetKind()] {
			continue
		}
		var part Part
		for _, p := range parts {
			if p.String() == o.String() {
				part = p
			}
		}
		for _, c := range o.containers() {
			image, name := c.text("image"), c.text("name")
			if (name == part.Container || sidecarOf(image) == "" && !slices.Contains(part.Sidecars, name)) && !slices.Contains(all, image) {
				all = append(all, image)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Normal is an image's name in full, as container runtimes keep it: the registry of names that have none, and the tag.
func Normal(image string) string {
	host, _, found := strings.Cut(image, "/")
	switch {
	case !found:
		image = "docker.io/library/" + image
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		image = "docker.io/" + image
	}
	if name := image[strings.LastIndex(image, "/")+1:]; !strings.ContainsAny(name, ":@") {
		image += ":latest"
	}
	return image
}
