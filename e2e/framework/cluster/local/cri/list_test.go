package cri

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// drain reads a stream to its end.
func drain[T any](recv func() (T, error)) []T {
	var all []T
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		all = append(all, must(m, err))
	}
}

// same selects everything, wrong nothing.
var same, wrong = map[string]string{"all": "yes"}, map[string]string{"all": "no"}

func TestListPodSandboxFilters(t *testing.T) {
	h := start(t, Options{})
	a, b := h.pod("a"), h.pod("b")
	h.stopPod(b)
	state := func(s runtimeapi.PodSandboxState) *runtimeapi.PodSandboxStateValue {
		return &runtimeapi.PodSandboxStateValue{State: s}
	}
	ready, notReady := runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	for i, c := range []struct {
		filter *runtimeapi.PodSandboxFilter
		want   string
	}{
		{nil, "a b"},
		{&runtimeapi.PodSandboxFilter{Id: a}, "a"},
		{&runtimeapi.PodSandboxFilter{Id: a[:8]}, ""},
		{&runtimeapi.PodSandboxFilter{State: state(ready)}, "a"},
		{&runtimeapi.PodSandboxFilter{State: state(notReady)}, "b"},
		{&runtimeapi.PodSandboxFilter{LabelSelector: same}, "a b"},
		{&runtimeapi.PodSandboxFilter{LabelSelector: wrong}, ""},
		{&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"pod": "b", "all": "yes"}}, "b"},
		{&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"none": ""}}, ""},
		{&runtimeapi.PodSandboxFilter{Id: a, State: state(notReady)}, ""},
	} {
		var got, streamed []string
		for _, p := range must(h.ListPodSandbox(h.ctx, &runtimeapi.ListPodSandboxRequest{Filter: c.filter})).Items {
			got = append(got, p.Metadata.Name)
			if p.CreatedAt == 0 || p.Labels["pod"] != p.Metadata.Name || p.Annotations["note"] != p.Metadata.Name {
				t.Errorf("item: want creation time, labels and annotations, got %v", p)
			}
		}
		for _, m := range drain(must(h.StreamPodSandboxes(h.ctx, &runtimeapi.StreamPodSandboxesRequest{Filter: c.filter})).Recv) {
			for _, p := range m.PodSandboxes {
				streamed = append(streamed, p.Metadata.Name)
			}
		}
		if strings.Join(got, " ") != c.want || !slices.Equal(got, streamed) {
			t.Errorf("filter %d (%v): want %q, got %q, streamed %q", i, c.filter, c.want, got, streamed)
		}
	}
}

func TestListContainersFilters(t *testing.T) {
	h := start(t, Options{})
	one, two := h.pod("one"), h.pod("two")
	must(h.create(one, containerConfig("created")))
	running := h.run(one, "running")
	h.run(two, "exits", "sleep", "5")
	state := func(s runtimeapi.ContainerState) *runtimeapi.ContainerFilter {
		return &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: s}}
	}
	h.clock.Step(5e9) // nobody looks at the exit but the filter
	for i, c := range []struct {
		filter *runtimeapi.ContainerFilter
		want   string
	}{
		{nil, "created running exits"},
		{&runtimeapi.ContainerFilter{Id: running}, "running"},
		{&runtimeapi.ContainerFilter{Id: running, PodSandboxId: two}, ""},
		{&runtimeapi.ContainerFilter{PodSandboxId: one}, "created running"},
		{state(runtimeapi.ContainerState_CONTAINER_CREATED), "created"},
		{state(runtimeapi.ContainerState_CONTAINER_RUNNING), "running"},
		{state(runtimeapi.ContainerState_CONTAINER_EXITED), "exits"},
		{state(runtimeapi.ContainerState_CONTAINER_UNKNOWN), ""},
		{&runtimeapi.ContainerFilter{LabelSelector: same}, "created running exits"},
		{&runtimeapi.ContainerFilter{LabelSelector: wrong}, ""},
		{&runtimeapi.ContainerFilter{LabelSelector: map[string]string{"container": "exits"}}, "exits"},
	} {
		var got, streamed []string
		for _, item := range must(h.ListContainers(h.ctx, &runtimeapi.ListContainersRequest{Filter: c.filter})).Containers {
			got = append(got, item.Metadata.Name)
			if item.Image.GetImage() == "" || item.ImageId == "" || item.PodSandboxId == "" || item.Annotations["restarts"] != "0" {
				t.Errorf("item: want image, sandbox and annotations, got %v", item)
			}
		}
		for _, m := range drain(must(h.StreamContainers(h.ctx, &runtimeapi.StreamContainersRequest{Filter: c.filter})).Recv) {
			for _, item := range m.Containers {
				streamed = append(streamed, item.Metadata.Name)
			}
		}
		if strings.Join(got, " ") != c.want || !slices.Equal(got, streamed) {
			t.Errorf("filter %d (%v): want %q, got %q, streamed %q", i, c.filter, c.want, got, streamed)
		}
	}
}

func TestStreamsAreCutIntoMessages(t *testing.T) {
	h := start(t, Options{})
	const pods = 2*perMessage + 1
	for i := range pods {
		h.pod(fmt.Sprintf("p%d", i))
	}
	var sizes []int
	for _, m := range drain(must(h.StreamPodSandboxes(h.ctx, &runtimeapi.StreamPodSandboxesRequest{})).Recv) {
		sizes = append(sizes, len(m.PodSandboxes))
	}
	if !slices.Equal(sizes, []int{perMessage, perMessage, 1}) {
		t.Errorf("messages of %d pods: want sizes 100, 100, 1, got %v", pods, sizes)
	}
}

func TestStats(t *testing.T) {
	h := start(t, Options{})
	pod, stopped := h.pod("p"), h.pod("stopped")
	running, exited := h.run(pod, "running"), h.run(pod, "exited", "exit 0")
	h.stopPod(stopped)

	list := must(h.ListContainerStats(h.ctx, &runtimeapi.ListContainerStatsRequest{})).Stats
	if len(list) != 1 || list[0].Attributes.Id != running {
		t.Fatalf("container stats: want those of the running one, got %v", list)
	}
	if s := list[0]; s.Cpu.UsageCoreNanoSeconds == nil || s.Memory.WorkingSetBytes == nil || s.Cpu.Timestamp != began.UnixNano() {
		t.Errorf("container stats: want processor and memory with a time, got %v", s)
	}
	none := &runtimeapi.ContainerStatsFilter{PodSandboxId: stopped}
	if got := must(h.ListContainerStats(h.ctx, &runtimeapi.ListContainerStatsRequest{Filter: none})).Stats; len(got) != 0 {
		t.Errorf("container stats of the other pod: want none, got %v", got)
	}
	if got := drain(must(h.StreamContainerStats(h.ctx, &runtimeapi.StreamContainerStatsRequest{})).Recv); len(got) != 1 {
		t.Errorf("container stats stream: want 1 message, got %v", got)
	}
	if got := must(h.ContainerStats(h.ctx, &runtimeapi.ContainerStatsRequest{ContainerId: exited})).Stats; got.Attributes.Id != exited {
		t.Errorf("stats of an exited container: want some, got %v", got)
	}
	_, err := h.ContainerStats(h.ctx, &runtimeapi.ContainerStatsRequest{ContainerId: "none"})
	wantCode(t, "stats of no container", err, codes.NotFound)

	pods := must(h.ListPodSandboxStats(h.ctx, &runtimeapi.ListPodSandboxStatsRequest{})).Stats
	if len(pods) != 1 || pods[0].Attributes.Id != pod || len(pods[0].Linux.Containers) != 1 || pods[0].Linux.Cpu == nil {
		t.Errorf("pod stats: want those of the ready pod with 1 container, got %v", pods)
	}
	if got := drain(must(h.StreamPodSandboxStats(h.ctx, &runtimeapi.StreamPodSandboxStatsRequest{})).Recv); len(got) != 1 {
		t.Errorf("pod stats stream: want 1 message, got %v", got)
	}
	one := must(h.PodSandboxStats(h.ctx, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: pod})).Stats
	if one.Attributes.Metadata.Name != "p" {
		t.Errorf("stats of a pod: want p's, got %v", one)
	}
	for _, id := range []string{stopped, "none", ""} {
		_, err := h.PodSandboxStats(h.ctx, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: id})
		wantCode(t, fmt.Sprintf("stats of pod %q", id), err, codes.NotFound)
	}
}
