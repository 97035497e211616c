package cri

import (
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (h *harness) stopPod(id string) {
	h.t.Helper()
	must(h.StopPodSandbox(h.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}))
}

func (h *harness) removePod(id string) {
	h.t.Helper()
	must(h.RemovePodSandbox(h.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}))
}

// withNetwork makes the config ask for a network namespace.
func withNetwork(c *runtimeapi.PodSandboxConfig, mode runtimeapi.NamespaceMode) *runtimeapi.PodSandboxConfig {
	c.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: mode, Pid: runtimeapi.NamespaceMode_CONTAINER},
	}}
	return c
}

func TestSandboxStatus(t *testing.T) {
	h := start(t, Options{PodCIDR: netip.MustParsePrefix("10.9.8.0/24")})
	config := withNetwork(podConfig("p", 2), runtimeapi.NamespaceMode_POD)
	id := must(h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: "headroom"})).PodSandboxId
	if len(id) != 64 {
		t.Errorf("id: want 64 digits, got %q", id)
	}
	h.clock.Step(1e9)
	want := &runtimeapi.PodSandboxStatus{
		Id: id, Metadata: config.Metadata, State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: began.UnixNano(),
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.9.8.2"},
		Linux: &runtimeapi.LinuxPodSandboxStatus{
			Namespaces: &runtimeapi.Namespace{Options: config.Linux.SecurityContext.NamespaceOptions},
		},
		Labels: config.Labels, Annotations: config.Annotations, RuntimeHandler: "headroom",
	}
	r := must(h.PodSandboxStatus(h.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id}))
	if !proto.Equal(r.Status, want) {
		t.Errorf("status:\nwant %v\n got %v", want, r.Status)
	}
	if r.Timestamp != 0 || len(r.ContainersStatuses) != 0 {
		t.Errorf("response: want no timestamp and no containers, which would promise events, got %v", r)
	}
	h.stopPod(id)
	want.State, want.Network.Ip = runtimeapi.PodSandboxState_SANDBOX_NOTREADY, ""
	if got := h.podStatus(id); !proto.Equal(got, want) {
		t.Errorf("status once stopped:\nwant %v\n got %v", want, got)
	}
	if _, err := h.UpdatePodSandboxResources(h.ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: id}); err != nil {
		t.Error(err)
	}
}

func TestRunPodSandboxRefuses(t *testing.T) {
	h := start(t, Options{PodCIDR: netip.MustParsePrefix("10.9.8.0/30")}) // one address
	h.pod("p")
	for _, c := range []struct {
		what    string
		want    codes.Code
		request *runtimeapi.RunPodSandboxRequest
	}{
		{"no config", codes.InvalidArgument, &runtimeapi.RunPodSandboxRequest{}},
		{"no uid", codes.InvalidArgument, &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "q", Namespace: "ns"},
		}}},
		{"unknown handler", codes.InvalidArgument, &runtimeapi.RunPodSandboxRequest{Config: podConfig("q", 0), RuntimeHandler: "runc"}},
		{"same attempt", codes.AlreadyExists, &runtimeapi.RunPodSandboxRequest{Config: podConfig("p", 0)}},
		{"no address left", codes.ResourceExhausted, &runtimeapi.RunPodSandboxRequest{Config: podConfig("q", 0)}},
		{"no address left again: the name is free", codes.ResourceExhausted, &runtimeapi.RunPodSandboxRequest{Config: podConfig("q", 0)}},
	} {
		_, err := h.RunPodSandbox(h.ctx, c.request)
		wantCode(t, c.what, err, c.want)
	}
	if n := len(h.server.Pods()); n != 1 {
		t.Errorf("pods: want 1, got %d", n)
	}
}

func TestHostNetworkTakesNoAddress(t *testing.T) {
	h := start(t, Options{PodCIDR: netip.MustParsePrefix("10.9.8.0/30")})
	config := withNetwork(podConfig("host", 0), runtimeapi.NamespaceMode_NODE)
	id := must(h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})).PodSandboxId
	got := h.podStatus(id)
	if got.GetNetwork() == nil || got.Network.Ip != "" || got.Linux.Namespaces.Options.Network != runtimeapi.NamespaceMode_NODE {
		t.Errorf("status: want an empty address and network NODE, got %v", got)
	}
	h.pod("p")
}

func TestNamesAndAddressesComeBack(t *testing.T) {
	h := start(t, Options{PodCIDR: netip.MustParsePrefix("10.9.8.0/30")})
	one := h.pod("p")
	h.stopPod(one)
	again := podConfig("p", 0)
	_, err := h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: again})
	wantCode(t, "attempt 0 while stopped", err, codes.AlreadyExists)
	two := must(h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: podConfig("p", 1)})).PodSandboxId // the only address is free
	h.removePod(one)
	h.removePod(two)
	if three := h.pod("p"); three == one {
		t.Errorf("id of attempt 0 made anew: want another than %q", one)
	}
}

func TestStopPodSandboxKillsAndIsIdempotent(t *testing.T) {
	h := start(t, Options{})
	pod, other := h.pod("p"), h.pod("other")
	running, exited := h.run(pod, "running"), h.run(pod, "exited", "exit", "4")
	created := must(h.create(pod, containerConfig("created")))
	elsewhere := h.run(other, "elsewhere")
	h.clock.Step(1e9)
	h.stopPod(pod)
	h.clock.Step(1e9)
	h.stopPod(pod)
	h.stopPod("never-was")
	got := h.status(running)
	if got.ExitCode != 137 || got.Reason != "Error" || got.FinishedAt != began.UnixNano()+1e9 {
		t.Errorf("running container: want 137, Error, after 1 s, got %v", got)
	}
	if got := h.status(exited); got.ExitCode != 4 {
		t.Errorf("exited container: want its own code 4, got %v", got)
	}
	if got := h.status(created).State; got != runtimeapi.ContainerState_CONTAINER_CREATED {
		t.Errorf("created container: want it so, got %s", got)
	}
	if got := h.status(elsewhere).State; got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("another pod's container: want it running, got %s", got)
	}
	_, err := h.create(pod, containerConfig("late"))
	wantCode(t, "create in a stopped sandbox", err, codes.FailedPrecondition)
	wantCode(t, "start in a stopped sandbox", h.startContainer(created), codes.FailedPrecondition)
	if got := h.status(created); got.Reason != "StartError" || got.ExitCode != 128 {
		t.Errorf("container that did not start: want StartError and 128, got %v", got)
	}
}

func TestRemovePodSandboxRemovesContainers(t *testing.T) {
	h := start(t, Options{})
	pod := h.pod("p")
	c := h.run(pod, "c")
	other := h.run(h.pod("other"), "c")
	h.removePod(pod)
	h.removePod(pod)
	_, err := h.PodSandboxStatus(h.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: pod})
	wantCode(t, "status of a removed sandbox", err, codes.NotFound)
	_, err = h.ContainerStatus(h.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c})
	wantCode(t, "status of its container", err, codes.NotFound)
	_, err = h.create(pod, containerConfig("late"))
	wantCode(t, "create in a removed sandbox", err, codes.NotFound)
	_, err = h.UpdatePodSandboxResources(h.ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: pod})
	wantCode(t, "update of a removed sandbox", err, codes.NotFound)
	h.status(other)
	h.run(h.pod("p"), "c") // both names are free again
}

func TestNothingIsLeftBehind(t *testing.T) {
	h := start(t, Options{})
	for range 3 {
		pod := h.pod("p")
		h.run(pod, "c")
		if _, err := h.create(pod, containerConfig("c")); err == nil {
			t.Fatal("second container of one name: want an error")
		}
		h.removePod(pod)
	}
	s := h.server
	if n := len(s.sandboxes) + len(s.containers) + len(s.names) + len(s.addresses.used); n != 0 {
		t.Errorf("state after all was removed: want none, got %d entries", n)
	}
}
