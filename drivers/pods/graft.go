package pods

import (
	"fmt"
	"maps"
	"path"
	"strings"
)

// driverMount is where the containers that are added have the volume of the driver's socket.
const driverMount = "/headroom/driver"

// tokenVolume has the credentials of the containers that are added to a controller, where client libraries look for them.
const (
	tokenVolume = "headroom-token"
	tokenMount  = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// nodeVariable has the name of its node in a container whose mounts depend on that.
const nodeVariable = "HEADROOM_NODE"

// share puts the volume of a socket where all nodes see it, in a folder of the node's own.
func (o Object) share(at place, sockets string) {
	delete(at.volume, "emptyDir")
	at.volume["hostPath"] = map[string]any{"path": sockets, "type": "Directory"}
	for _, c := range o.containers() {
		shares := false
		for _, m := range c.list("volumeMounts") {
			if m["name"] != at.volume["name"] {
				continue
			}
			below := m["subPath"]
			if below == nil {
				below = m["subPathExpr"]
			}
			text, _ := below.(string)
			delete(m, "subPath")
			m["subPathExpr"], shares = path.Join("$("+nodeVariable+")", text), true
		}
		if shares {
			env, _ := c["env"].([]any)
			c["env"] = append(env, map[string]any{"name": nodeVariable, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}})
		}
	}
}

// graft puts the containers of another workload but its first into one, beside the part's container, and says where the part's socket is.
func (r Run) graft(o Object, part Part, from Object) (at place, err error) {
	at, err = o.socket(part)
	if err != nil {
		return at, o.Problem("", "", "%v", err)
	}
	if at.volume["hostPath"] != nil {
		// The author's registrar would have pointed the kubelet to it; that place is the gate's now.
		delete(at.volume, "hostPath")
		at.volume["emptyDir"] = map[string]any{}
	}
	endpoint := "unix://" + driverMount + "/" + at.rest
	spec, other := o.podSpec(), from.podSpec()
	volumes := map[string]bool{}
	called := false
	containers, _ := spec["containers"].([]any)
	for _, c := range objectsIn(other["containers"])[1:] {
		words, _ := c["command"].([]any)
		mounts := c["volumeMounts"]
		list, _ := mounts.([]any)
		for _, m := range objectsIn(mounts) {
			name := fmt.Sprint(m["name"])
			volumes[name], m["name"] = true, "headroom-"+name
		}
		for i, w := range words {
			word, _ := w.(string)
			if flag, calls := strings.CutSuffix(word, r.Endpoint); calls {
				words[i], called = flag+endpoint, true
				m := map[string]any{"name": at.volume["name"], "mountPath": driverMount}
				if at.subPath != "" {
					m["subPath"] = at.subPath
				}
				list = append(list, m)
			}
		}
		if other["serviceAccountName"] != nil {
			list = append(list, map[string]any{"name": tokenVolume, "mountPath": tokenMount, "readOnly": true})
			volumes[tokenVolume] = true
		}
		c["volumeMounts"] = list
		if c["securityContext"] == nil {
			// The pod's may say otherwise, and the run directory is its maker's.
			c["securityContext"] = map[string]any{"runAsUser": int64(0), "runAsGroup": int64(0), "runAsNonRoot": false}
		}
		containers = append(containers, c)
	}
	if !called {
		return at, fmt.Errorf("render %s: none of Headroom's containers calls the driver at %s", o, r.Endpoint)
	}
	spec["containers"] = containers
	all, _ := spec["volumes"].([]any)
	for _, v := range objectsIn(other["volumes"]) {
		if name := fmt.Sprint(v["name"]); volumes[name] {
			v["name"] = "headroom-" + name
			all = append(all, v)
		}
	}
	if volumes[tokenVolume] {
		all = append(all, map[string]any{"name": tokenVolume, "secret": map[string]any{"secretName": tokenVolume}})
	}
	spec["volumes"] = all
	selector := object(spec["nodeSelector"])
	if selector == nil {
		selector = map[string]any{}
	}
	maps.Copy(selector, object(other["nodeSelector"]))
	spec["nodeSelector"] = selector
	tolerations, _ := spec["tolerations"].([]any)
	more, _ := other["tolerations"].([]any)
	spec["tolerations"] = append(tolerations, more...)
	return at, nil
}
