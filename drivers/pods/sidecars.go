package pods

import (
	"fmt"
	"slices"
	"strings"
)

// sidecars are programs of Kubernetes CSI that stand beside a driver, by what their images are called wherever they are mirrored. Headroom has its own
// registrar, attacher and provisioner; the others would call the driver past the gate, or need what a run does not have.
var sidecars = []string{
	"node-driver-registrar", "livenessprobe", "csi-attacher", "external-attacher", "csi-provisioner", "external-provisioner", "csi-resizer", "external-resizer",
	"csi-snapshotter", "external-snapshotter", "external-health-monitor", "csi-snapshot-metadata", "external-snapshot-metadata",
}

// sidecarOf says which of the sidecars an image is; "" is none.
func sidecarOf(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	for _, s := range sidecars {
		if strings.Contains(name, s) {
			return s
		}
	}
	return ""
}

// container is one of a pod's, as its manifest has it.
type container map[string]any

func (c container) text(key string) string { s, _ := c[key].(string); return s }

func (c container) list(key string) []map[string]any { return objectsIn(c[key]) }

// objectsIn are the objects of a list.
func objectsIn(list any) (all []map[string]any) {
	items, _ := list.([]any)
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// template is a workload's pod template.
func (o Object) template() map[string]any { return object(object(o.Object["spec"])["template"]) }

// podSpec is the pod's in a workload.
func (o Object) podSpec() map[string]any { return object(o.template()["spec"]) }

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

// containerLists are where a pod has containers.
var containerLists = []string{"containers", "initContainers"}

// containers are all of a workload's.
func (o Object) containers() (all []container) {
	for _, list := range containerLists {
		for _, c := range objectsIn(o.podSpec()[list]) {
			all = append(all, c)
		}
	}
	return all
}

// container is the one of that name among those that run side by side; nil when there is none.
func (o Object) container(name string) container {
	for _, c := range objectsIn(o.podSpec()["containers"]) {
		if c["name"] == name {
			return c
		}
	}
	return nil
}

// dropSidecars takes the sidecars out of a workload, the volumes that none but they used, and the probes that they answered. gone says what went. left is
// false when nothing of the workload is.
func (o Object) dropSidecars(driver string, further []string) (gone []string, left bool) {
	spec := o.podSpec()
	var ports []string
	went, stays := map[string]bool{}, map[string]bool{}
	for _, list := range containerLists {
		var kept []any
		for _, c := range objectsIn(spec[list]) {
			c := container(c)
			s := sidecarOf(c.text("image"))
			if c.text("name") == driver || s == "" && !slices.Contains(further, c.text("name")) {
				kept = append(kept, map[string]any(c))
				mark(stays, c)
				continue
			}
			gone = append(gone, fmt.Sprintf("container %s of %s (%s)", c.text("name"), o, c.text("image")))
			mark(went, c)
			if s == "livenessprobe" {
				ports = append(ports, healthPort(c))
			}
		}
		switch {
		case len(kept) > 0:
			spec[list] = kept
		case list == "containers" && len(gone) > 0:
			return []string{fmt.Sprintf("%s, which has sidecars only", o)}, false
		default:
			delete(spec, list)
		}
	}
	var volumes []any
	for _, v := range objectsIn(spec["volumes"]) {
		name, _ := v["name"].(string)
		if !went[name] || stays[name] {
			volumes = append(volumes, v)
		}
	}
	if _, had := spec["volumes"]; had {
		spec["volumes"] = volumes
	}
	for _, c := range o.containers() {
		o.dropProbes(c, ports)
	}
	return gone, true
}

func mark(names map[string]bool, c container) {
	for _, m := range c.list("volumeMounts") {
		name, _ := m["name"].(string)
		names[name] = true
	}
}

// healthPort is where a livenessprobe answers; "" where its arguments do not tell.
func healthPort(c container) string {
	args, _ := c["args"].([]any)
	command, _ := c["command"].([]any)
	words := slices.Concat(command, args)
	for i, w := range words {
		word, _ := w.(string)
		name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case name != "health-port" && name != "http-endpoint":
			continue
		case !given && i+1 < len(words):
			value, _ = words[i+1].(string)
		}
		port := value[strings.LastIndex(value, ":")+1:]
		if strings.Trim(port, "0123456789") != "" {
			return ""
		}
		return port
	}
	return "9808" // its default
}

// dropProbes takes the probes of a container away that a livenessprobe on one of the ports answered.
func (o Object) dropProbes(c container, ports []string) {
	for _, kind := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		get := object(object(c[kind])["httpGet"])
		if get == nil {
			continue
		}
		port := fmt.Sprint(get["port"])
		for _, other := range o.containers() {
			for _, p := range other.list("ports") {
				if p["name"] == port {
					port = fmt.Sprint(p["containerPort"])
				}
			}
		}
		if slices.Contains(ports, port) || slices.Contains(ports, "") && get["path"] == "/healthz" {
			delete(c, kind)
		}
	}
}
