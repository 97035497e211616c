package kind

import (
	"fmt"
	"slices"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"headroom/e2e/framework/binaries"
)

// nodeRunDir is where every node has the run directory.
const nodeRunDir = "/headroom/run"

// auditPolicy records who wrote what to storage.k8s.io, and the request before it was handled: a killed API server loses completions, and a request
// without one is then unknown, not absent.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: storage.k8s.io}]
- level: None
`

// apiServerPatch turns the audit log on. The list replaces kind's own, whose one entry is the first here.
const apiServerPatch = `kind: ClusterConfiguration
apiServer:
  extraArgs:
  - {name: runtime-config, value: ""}
  - {name: audit-policy-file, value: %[1]s/kind/audit-policy.yaml}
  - {name: audit-log-path, value: %[1]s/logs/audit.log}
  - {name: audit-log-maxsize, value: "0"}
  extraVolumes:
  - {name: audit-policy, hostPath: %[1]s/kind, mountPath: %[1]s/kind, readOnly: true, pathType: Directory}
  - {name: audit-log, hostPath: %[1]s/logs, mountPath: %[1]s/logs, pathType: Directory}
`

// schedulerPatch lets the API server read the scheduler's metrics, which asks as nobody in particular. The list is the only one: kind gives none.
const schedulerPatch = `kind: ClusterConfiguration
scheduler:
  extraArgs:
  - {name: bind-address, value: 0.0.0.0}
  - {name: authorization-always-allow-paths, value: "/healthz,/readyz,/livez,/metrics"}
`

// kubeletPatch lets kubelets run on machines that still have cgroup v1; 1.35 and later refuse it otherwise.
const kubeletPatch = `kind: KubeletConfiguration
failCgroupV1: false
`

// dnsPatch asks for the CoreDNS that assembled nodes have, whatever the release.
const dnsPatch = `kind: ClusterConfiguration
dns: {imageTag: %s}
`

// config is what kind is told.
func (n *nascent) config() *v1alpha4.Cluster {
	mounts := []v1alpha4.Mount{{HostPath: n.RunDir, ContainerPath: nodeRunDir}}
	c := &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"}, Name: n.Name,
		Networking:           v1alpha4.Networking{APIServerAddress: "127.0.0.1", APIServerPort: int32(n.options.Port)},
		KubeadmConfigPatches: []string{fmt.Sprintf(apiServerPatch, nodeRunDir), schedulerPatch, kubeletPatch},
	}
	if n.own[0] {
		c.KubeadmConfigPatches = append(c.KubeadmConfigPatches, fmt.Sprintf(dnsPatch, binaries.CoreDNSVersion))
	}
	if slices.Contains(n.own, true) {
		// An assembled node makes its pod network itself, and its kube-proxy has nft and no iptables.
		c.Networking.DisableDefaultCNI = true
		c.Networking.KubeProxyMode = v1alpha4.NFTablesProxyMode
	}
	for i, image := range n.images {
		role := v1alpha4.WorkerRole
		if i == 0 {
			role = v1alpha4.ControlPlaneRole
		}
		c.Nodes = append(c.Nodes, v1alpha4.Node{Role: role, Image: image, ExtraMounts: mounts})
	}
	return c
}
