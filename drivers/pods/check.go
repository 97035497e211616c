package pods

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Part is where a driver runs: the container of its own in a workload.
type Part struct {
	// Kind and Name are the workload's.
	Kind, Name string
	Container  string
	// Socket is the path inside the container where the driver listens.
	Socket string
	// Sidecars are containers that go beside those that are known by their images.
	Sidecars []string
}

// String is the workload as messages name it.
func (p Part) String() string { return p.Kind + "/" + p.Name }

// Added are the names of containers that Headroom adds.
var Added = []string{"gate", "attacher", "provisioner"}

// Check says what in objects that were read AsWritten does not fit the parts. fail takes a field below pods; limited says that the driver asks Headroom's
// backend.
func Check(objects []Object, node Part, controller *Part, limited bool, fail func(field, remedy, format string, args ...any)) error {
	var errs []error
	uses := func(placeholder string, of func(Object) any) bool {
		for _, o := range objects {
			if holds(of(o), "${"+placeholder+"}") {
				return true
			}
		}
		return false
	}
	for _, o := range objects {
		if o.GetKind() == "CSIDriver" && o.GetName() != "${DRIVER_NAME}" {
			errs = append(errs, o.Problem("metadata.name", "write ${DRIVER_NAME} here, and give it to the driver", "several drivers run at once, under names that specs choose"))
		}
	}
	parts := []Part{node}
	if controller != nil {
		parts = append(parts, *controller)
	}
	for _, o := range objects {
		if workloads[o.GetKind()] {
			part := Part{}
			for _, p := range parts {
				if p.String() == o.String() {
					part = p
				}
			}
			if err := o.checkNeeds(objects, part); err != nil {
				errs = append(errs, err)
			}
		}
	}
	configured := uses("DRIVER_NAME", func(o Object) any {
		if o.GetKind() == "ConfigMap" || o.GetKind() == "Secret" {
			return o.Object
		}
		return nil
	})
	for i, p := range parts {
		at := []string{"node", "controller"}[i]
		o := find(objects, p)
		if o == nil {
			fail(at+".workload", "correct it, or add its manifest to pods.manifests", "%s is in no manifest; there are: %s", p, strings.Join(names(objects), ", "))
			continue
		}
		c := o.container(p.Container)
		if c == nil {
			var all []string
			for _, c := range objectsIn(o.podSpec()["containers"]) {
				all = append(all, container(c).text("name"))
			}
			fail(at+".container", "write one of these", "%s has no container %q; it has: %s", o, p.Container, strings.Join(all, ", "))
			continue
		}
		if _, err := o.socket(p); err != nil {
			fail(at+".socket", "write the path inside the container, below a volumeMount of it", "%v", err)
		}
		if !configured && !holds(map[string]any(c), "${DRIVER_NAME}") {
			errs = append(errs, o.Problem("", "pass it, such as --drivername=${DRIVER_NAME}", "container %s has no ${DRIVER_NAME}: several drivers run at once, under names that specs choose", p.Container))
		}
		for _, name := range p.Sidecars {
			if o.container(name) == nil || name == p.Container {
				fail(at+".sidecars", "correct the name", "%s has no container %q beside the driver's", o, name)
			}
		}
		for _, name := range Added {
			if c := o.container(name); c != nil && sidecarOf(c.text("image")) == "" && !slices.Contains(p.Sidecars, name) {
				errs = append(errs, o.Problem("", "give it another name, or add it to pods."+at+".sidecars", "container %q has the name of one that Headroom adds", name))
			}
		}
	}
	if limited && !uses("BACKEND", func(o Object) any { return o.Object }) {
		fail("manifests", "pass ${BACKEND} to the driver, or write limit: gate, own or fixed", "with limit: backend, want ${BACKEND} in one of them")
	}
	return errors.Join(errs...)
}

// holds says whether a text is somewhere in a value.
func holds(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, text)
	case []any:
		for _, i := range v {
			if holds(i, text) {
				return true
			}
		}
	case map[string]any:
		for _, i := range v {
			if holds(i, text) {
				return true
			}
		}
	}
	return false
}

func find(objects []Object, p Part) *Object {
	for i, o := range objects {
		if o.GetKind() == p.Kind && o.GetName() == p.Name {
			return &objects[i]
		}
	}
	return nil
}

// names are those of the workloads.
func names(objects []Object) (all []string) {
	for _, o := range objects {
		if workloads[o.GetKind()] {
			all = append(all, o.String())
		}
	}
	if len(all) == 0 {
		all = []string{"no workload at all"}
	}
	return all
}

// place is where a socket is: in a volume, below a path of it.
type place struct {
	volume map[string]any
	// subPath is what of the volume the driver's container has; rest is the socket's path below that.
	subPath, rest string
}

// socket finds a part's.
func (o Object) socket(p Part) (at place, err error) {
	c := o.container(p.Container)
	longest := ""
	var mount map[string]any
	for _, m := range c.list("volumeMounts") {
		dir, _ := m["mountPath"].(string)
		dir = path.Clean("/" + dir)
		if below := strings.TrimSuffix(dir, "/") + "/"; strings.HasPrefix(p.Socket, below) && len(dir) > len(longest) {
			longest, mount = dir, m
		}
	}
	if mount == nil {
		return at, fmt.Errorf("%s is in no volume of container %s of %s: nobody else could reach it", p.Socket, p.Container, o)
	}
	if mount["subPathExpr"] != nil {
		return at, fmt.Errorf("the volumeMount at %s of container %s of %s has a subPathExpr: want a subPath, or none", longest, p.Container, o)
	}
	at.subPath, _ = mount["subPath"].(string)
	at.rest = strings.TrimPrefix(strings.TrimPrefix(p.Socket, longest), "/")
	for _, v := range objectsIn(o.podSpec()["volumes"]) {
		if v["name"] == mount["name"] {
			at.volume = v
		}
	}
	if at.volume["emptyDir"] == nil && at.volume["hostPath"] == nil {
		return at, fmt.Errorf("volume %q of %s, which %s is in: want an emptyDir or a hostPath", mount["name"], o, p.Socket)
	}
	return at, nil
}
