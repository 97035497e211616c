package pods

import (
	"slices"
	"strings"
)

// given are objects that every namespace, or every cluster, has by itself.
var given = []string{"ServiceAccount/default", "ConfigMap/kube-root-ca.crt", "PriorityClass/system-node-critical", "PriorityClass/system-cluster-critical"}

// missing are the objects without which no pod of a workload would start, and that are not among those given. The driver's namespace has no other.
func (o Object) missing(objects []Object) (all []string) {
	spec := o.podSpec()
	var wanted []string
	want := func(kind string, name any, optional any) {
		if s, _ := name.(string); s != "" && optional != true {
			wanted = append(wanted, kind+"/"+s)
		}
	}
	want("ServiceAccount", spec["serviceAccountName"], nil)
	want("PriorityClass", spec["priorityClassName"], nil)
	source := func(from map[string]any) {
		for kind, fields := range map[string][2]string{"Secret": {"secretRef", "secretKeyRef"}, "ConfigMap": {"configMapRef", "configMapKeyRef"}} {
			for _, field := range fields {
				ref := object(from[field])
				want(kind, ref["name"], ref["optional"])
			}
		}
	}
	for _, c := range o.containers() {
		for _, e := range c.list("env") {
			source(object(e["valueFrom"]))
		}
		for _, e := range c.list("envFrom") {
			source(e)
		}
	}
	volume := func(v map[string]any, nameOfSecret string) {
		secret, config := object(v["secret"]), object(v["configMap"])
		want("Secret", secret[nameOfSecret], secret["optional"])
		want("ConfigMap", config["name"], config["optional"])
	}
	for _, v := range objectsIn(spec["volumes"]) {
		volume(v, "secretName")
		for _, s := range objectsIn(object(v["projected"])["sources"]) {
			volume(s, "name")
		}
		want("PersistentVolumeClaim", object(v["persistentVolumeClaim"])["claimName"], nil)
	}
	slices.Sort(wanted)
	for _, w := range slices.Compact(wanted) {
		there := func(o Object) bool { return o.String() == w }
		if !slices.Contains(given, w) && !slices.ContainsFunc(objects, there) {
			all = append(all, w)
		}
	}
	return all
}

// checkNeeds says what a workload needs and does not get, once its sidecars are gone.
func (o Object) checkNeeds(objects []Object, p Part) error {
	left := Object{o.DeepCopy(), o.File, o.Line}
	if _, any := left.dropSidecars(p.Container, p.Sidecars); !any {
		return nil
	}
	if all := left.missing(objects); len(all) > 0 {
		return o.Problem("", "add it to pods.manifests: the driver gets a namespace of its own", "needs %s, which is in no manifest", strings.Join(all, ", "))
	}
	return nil
}
