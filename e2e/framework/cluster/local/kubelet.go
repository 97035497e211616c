package local

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// prepareKubelet writes the kubelet's configuration and makes the real kubelet's process, on this node's container runtime.
func (a *agent) prepareKubelet(runtime string) (*process, error) {
	dir := nodeDir(a.cfg.Node)
	config, err := json.MarshalIndent(a.kubeletConfiguration(dir, runtime), "", "  ")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "kubelet.json")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"--config", path, "--kubeconfig", a.cfg.Kubeconfig, "--hostname-override", a.cfg.Node, "--node-ip", cellAddress,
		"--root-dir", kubeletDir, "--cert-dir", filepath.Join(dir, "pki"), "--v", "3",
	}
	labels := maps.Clone(a.cfg.Labels)
	if a.cfg.Zone != "" {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[corev1.LabelTopologyZone] = a.cfg.Zone
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		args = append(args, "--node-labels", key+"="+labels[key])
	}
	p := a.process("kubelet@"+a.cfg.Node, "kubelet", a.binaries.command("kubelet", args...))
	p.healthy = healthz(http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/healthz", a.cfg.Port+1))
	return p, nil
}

// kubeletConfiguration is what a kubelet needs to run as an ordinary process among others: no cgroups of its own, no evictions, ports and
// directories of its own. Everything about volumes is the default.
func (a *agent) kubeletConfiguration(dir, runtime string) map[string]any {
	c := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"authentication":           map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true}, "x509": map[string]any{"clientCAFile": pki("ca.crt")}},
		"authorization":            map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + runtime,
		"tlsCertFile":              pki("serving-" + a.cfg.Node + ".crt"),
		"tlsPrivateKeyFile":        pki("serving-" + a.cfg.Node + ".key"),
		"cgroupDriver":             "cgroupfs",
		"cgroupsPerQOS":            false,
		"enforceNodeAllocatable":   []string{},
		"failSwapOn":               false,
		"failCgroupV1":             false,
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"localStorageCapacityIsolation": false,
		"port":                          a.cfg.Port,
		"healthzPort":                   a.cfg.Port + 1,
		"readOnlyPort":                  0,
		"podLogsDir":                    filepath.Join(dir, "log", "pods"),
		"volumePluginDir":               filepath.Join(dir, "volume-plugins"),
		"resolvConf":                    "",
	}
	// A kubelet protects itself from the kernel's memory killer, which only a privileged one may; refused, it tries again for 0.2 s of its start. To
	// keep what it has is always allowed.
	if score, err := oomScore(); err == nil {
		c["oomScoreAdj"] = score
	}
	if seconds := a.cfg.Cell.LeaseSeconds; seconds > 0 {
		c["nodeLeaseDurationSeconds"] = seconds
	}
	if a.cfg.Cell.Rootless {
		c["featureGates"] = map[string]bool{"KubeletInUserNamespace": true}
	}
	return c
}

// oomScore is this process's inclination to be chosen by the kernel's memory killer; its children inherit it.
func oomScore() (int, error) {
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
