package nodeimage

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"

	"headroom/e2e/framework/cluster/kind/archive"
)

// containerdConfig is kind's, with two changes: the pod network's configuration comes from a template, which containerd fills in when the kubelet tells
// it the node's range, and no container asks for a better place with the kernel's memory killer, which takes a capability that some machines lack.
const containerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%s"
  tolerate_missing_hugepages_controller = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_template = "/kind/pod-network.conflist"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    discard_unpacked_layers = true
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "/etc/containerd/cri-base.json"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
`

// podNetwork gives each pod an address of the node's range. Ranges of other nodes are reached by routes, which whoever makes the cluster sets.
const podNetwork = `{
  "cniVersion": "0.4.0",
  "name": "headroom",
  "plugins": [
    {"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [{{range $i, $e := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$e}}"}]{{end}}],
      "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// manifests is what kind applies to a new cluster: a note in place of a network add-on, which is not needed, and a class that provisions nothing.
const (
	networkManifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: pod-network, namespace: kube-system}
data: {made-by: containerd}
`
	storageManifest = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard}
provisioner: kubernetes.io/no-provisioner
`
	manifests = networkManifest + storageManifest
)

// files are what the image has beyond the Debian root.
func (b builder) files(ctx context.Context, sandbox string) ([]archive.File, error) {
	spec, err := b.baseSpec(ctx)
	if err != nil {
		return nil, err
	}
	files := []archive.File{
		{Path: "/kind/version", Data: []byte(b.release.Version.String()), Mode: 0o644},
		{Path: "/kind/manifests/default-cni.yaml", Data: []byte(networkManifest), Mode: 0o644},
		{Path: "/kind/manifests/default-storage.yaml", Data: []byte(storageManifest), Mode: 0o644},
		{Path: "/kind/pod-network.conflist", Data: []byte(podNetwork), Mode: 0o644},
		{Path: "/etc/containerd/config.toml", Data: fmt.Appendf(nil, containerdConfig, sandbox), Mode: 0o644},
		{Path: "/etc/containerd/cri-base.json", Data: spec, Mode: 0o644},
	}
	for dir, names := range map[string]string{
		"/usr/bin": "kubeadm kubelet kubectl", "/usr/local/bin": "containerd containerd-shim-runc-v2 ctr", "/opt/cni/bin": "host-local loopback ptp portmap",
	} {
		for _, name := range strings.Fields(names) {
			binary, has := b.paths[name]
			if !has {
				continue // a worker has no kubectl
			}
			files = append(files, archive.File{Path: dir + "/" + name, From: binary.Path})
		}
	}
	return files, nil
}

// baseSpec is what every container of a node starts from: containerd's own, with the hook that hides the machine's identity, and no limits.
func (b builder) baseSpec(ctx context.Context) ([]byte, error) {
	out, err := exec.CommandContext(ctx, b.paths["ctr"].Path, "oci", "spec").Output()
	if err != nil {
		return nil, fmt.Errorf("ask ctr for its base specification: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(out, &spec); err != nil {
		return nil, fmt.Errorf("ask ctr for its base specification: %w", err)
	}
	process, ok := spec["process"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("ask ctr for its base specification: want a field %q, got %.100s", "process", out)
	}
	delete(process, "rlimits")
	spec["hooks"] = map[string]any{"createContainer": []any{map[string]any{"path": "/kind/bin/mount-product-files.sh"}}}
	return json.Marshal(spec)
}
