package pods

import (
	"strings"
	"testing"
)

// TestMissing looks for what a pod needs beside an object of each kind that is there.
func TestMissing(t *testing.T) {
	const there = `
--- {apiVersion: v1, kind: Secret, metadata: {name: there}}
--- {apiVersion: v1, kind: ConfigMap, metadata: {name: there}}
--- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: there}}
`
	in := func(container string) string { return "containers: [{name: c, image: i, " + container + "}]" }
	volume := func(v string) string { return "containers: [{name: c, image: i}], volumes: [{name: v, " + v + "}]" }
	for spec, want := range map[string]string{
		in(""): "",
		"serviceAccountName: default, priorityClassName: system-node-critical, " + in(""):                  "",
		"priorityClassName: system-cluster-critical, " + in("envFrom: [{secretRef: {name: there}}]"):       "",
		in("envFrom: [{secretRef: {name: s}}, {configMapRef: {name: c}}]"):                                 "ConfigMap/c Secret/s",
		in("envFrom: [{secretRef: {name: s, optional: true}}, {configMapRef: {name: c, optional: true}}]"): "",
		in("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"):                               "Secret/s",
		in("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]"):               "",
		in("env: [{name: A, valueFrom: {configMapKeyRef: {name: there, key: k}}}]"):                        "",
		"initContainers: [{name: i, image: i, envFrom: [{secretRef: {name: s}}]}], " + in(""):              "Secret/s",
		volume("configMap: {name: c}"):                                                                             "ConfigMap/c",
		volume("configMap: {name: c, optional: true}"):                                                             "",
		volume("secret: {secretName: there}"):                                                                      "",
		volume("persistentVolumeClaim: {claimName: p}"):                                                            "PersistentVolumeClaim/p",
		volume("persistentVolumeClaim: {claimName: there}"):                                                        "",
		volume("projected: {sources: [{configMap: {name: kube-root-ca.crt}}, {secret: {name: s}}]}"):               "Secret/s",
		volume("projected: {sources: [{configMap: {name: c, optional: true}}, {serviceAccountToken: {path: t}}]}"): "",
	} {
		text := "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" + spec + "}}}}" + there
		objects, err := Read([]File{{"d.yaml", []byte(text)}}, nil)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		if got := strings.Join(objects[0].missing(objects), " "); got != want {
			t.Errorf("%s: want %q missing, got %q", spec, want, got)
		}
	}
}
