package cri

import (
	"testing"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kubelet's own checks of these answers are named in runtime.go.
func TestRuntimeAnswersWhatTheKubeletInsistsOn(t *testing.T) {
	h := start(t, Options{})
	v := must(h.Version(h.ctx, &runtimeapi.VersionRequest{Version: "0.1.0"}))
	if v.Version != "0.1.0" || v.RuntimeName == "" || v.RuntimeVersion == "" || v.RuntimeApiVersion == "" {
		t.Errorf("version: want 0.1.0 and no empty field, got %v", v)
	}
	r := must(h.Status(h.ctx, &runtimeapi.StatusRequest{}))
	ready := map[string]bool{}
	for _, c := range r.GetStatus().GetConditions() {
		ready[c.Type] = c.Status
	}
	if len(ready) < 2 || !ready[runtimeapi.RuntimeReady] || !ready[runtimeapi.NetworkReady] {
		t.Errorf("conditions: want runtime and network ready, got %v", ready)
	}
	handlers := map[string]bool{}
	for _, handler := range r.RuntimeHandlers {
		handlers[handler.Name] = handler.GetFeatures().GetRecursiveReadOnlyMounts()
	}
	if !handlers[""] || !handlers["headroom"] {
		t.Errorf("handlers: want \"\" and headroom with recursive read-only mounts, got %v", handlers)
	}
	if !r.GetFeatures().GetSupplementalGroupsPolicy() {
		t.Error("features: want supplementalGroupsPolicy")
	}
	c := must(h.RuntimeConfig(h.ctx, &runtimeapi.RuntimeConfigRequest{}))
	if c.Linux == nil || c.Linux.CgroupDriver != runtimeapi.CgroupDriver_CGROUPFS {
		t.Errorf("cgroup driver: want cgroupfs, got %v", c)
	}
	if _, err := h.UpdateRuntimeConfig(h.ctx, &runtimeapi.UpdateRuntimeConfigRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := h.ListMetricDescriptors(h.ctx, &runtimeapi.ListMetricDescriptorsRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := h.ListPodSandboxMetrics(h.ctx, &runtimeapi.ListPodSandboxMetricsRequest{}); err != nil {
		t.Error(err)
	}
	stream := must(h.StreamPodSandboxMetrics(h.ctx, &runtimeapi.StreamPodSandboxMetricsRequest{}))
	if got := drain(stream.Recv); len(got) != 0 {
		t.Errorf("metrics stream: want it empty, got %v", got)
	}
}

func TestUnimplemented(t *testing.T) {
	h := start(t, Options{})
	calls := map[string]func() error{
		"Exec":        func() error { _, err := h.Exec(h.ctx, &runtimeapi.ExecRequest{}); return err },
		"ExecSync":    func() error { _, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{}); return err },
		"Attach":      func() error { _, err := h.Attach(h.ctx, &runtimeapi.AttachRequest{}); return err },
		"PortForward": func() error { _, err := h.PortForward(h.ctx, &runtimeapi.PortForwardRequest{}); return err },
		"CheckpointContainer": func() error {
			_, err := h.CheckpointContainer(h.ctx, &runtimeapi.CheckpointContainerRequest{})
			return err
		},
		"GetContainerEvents": func() error {
			stream, err := h.GetContainerEvents(h.ctx, &runtimeapi.GetEventsRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	}
	for name, call := range calls {
		wantCode(t, name, call(), codes.Unimplemented)
	}
}
