package cri

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	created = runtimeapi.ContainerState_CONTAINER_CREATED
	running = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited  = runtimeapi.ContainerState_CONTAINER_EXITED
)

// exit is the part of a status that tells of a container's end; times are after began.
type exit struct {
	state             runtimeapi.ContainerState
	started, finished time.Duration
	code              int32
	reason            string
}

// never is a time that is not yet.
const never = time.Duration(math.MinInt64)

func (h *harness) exit(id string) exit {
	h.t.Helper()
	since := func(at int64) time.Duration {
		if at == 0 {
			return never
		}
		return time.Duration(at - began.UnixNano())
	}
	s := h.status(id)
	return exit{s.State, since(s.StartedAt), since(s.FinishedAt), s.ExitCode, s.Reason}
}

func (h *harness) wantExit(what, id string, want exit) {
	h.t.Helper()
	if got := h.exit(id); got != want {
		h.t.Errorf("%s: want %+v, got %+v", what, want, got)
	}
}

func TestContainersExitInTime(t *testing.T) {
	h := start(t, Options{})
	pod := h.pod("p")
	server, sleeper := h.run(pod, "server", "/pause"), h.run(pod, "sleeper", "sleep", "5")
	failing, late := h.run(pod, "failing", "exit 3"), h.run(pod, "late", "exit 3 after 2s")
	up := exit{running, 0, never, 0, ""}
	h.wantExit("failing", failing, exit{exited, 0, 0, 3, "Error"})
	h.wantExit("late at 0 s", late, up)
	h.clock.Step(2*time.Second - 1)
	h.wantExit("late just before 2 s", late, up)
	h.clock.Step(1)
	h.wantExit("late at 2 s", late, exit{exited, 0, 2 * time.Second, 3, "Error"})
	h.wantExit("sleeper at 2 s", sleeper, up)
	h.clock.Step(time.Hour) // the time of an exit is its own, not that of the look
	h.wantExit("sleeper", sleeper, exit{exited, 0, 5 * time.Second, 0, "Completed"})
	h.wantExit("server", server, up)
}

func TestContainerStatus(t *testing.T) {
	h := start(t, Options{})
	dir := tempDir(t)
	config := podConfig("p", 0)
	config.LogDirectory = dir
	pod := must(h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})).PodSandboxId
	c := containerConfig("c")
	c.Metadata.Attempt, c.LogPath = 4, "4.log"
	c.Image = &runtimeapi.ImageSpec{Image: imageOf("busybox").Id, UserSpecifiedImage: "busybox"}
	c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/data", HostPath: dir, Readonly: true}}
	c.Linux = &runtimeapi.LinuxContainerConfig{
		Resources: &runtimeapi.LinuxContainerResources{CpuShares: 102, MemoryLimitInBytes: 1000},
		SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			RunAsUser: &runtimeapi.Int64Value{Value: 7}, RunAsGroup: &runtimeapi.Int64Value{Value: 8}, SupplementalGroups: []int64{9},
		},
	}
	c.Envs = []*runtimeapi.KeyValue{{Key: "k"}}
	id := must(h.create(pod, c))
	h.clock.Step(time.Second)
	if err := h.startContainer(id); err != nil {
		t.Fatal(err)
	}
	image := imageOf("busybox")
	want := &runtimeapi.ContainerStatus{
		Id: id, Metadata: c.Metadata, State: running, CreatedAt: began.UnixNano(), StartedAt: began.UnixNano() + 1e9,
		Image:    &runtimeapi.ImageSpec{Image: "busybox:latest", UserSpecifiedImage: "busybox"},
		ImageRef: image.RepoDigests[0], ImageId: image.Id, Labels: c.Labels, Annotations: c.Annotations, Mounts: c.Mounts,
		LogPath: filepath.Join(dir, "4.log"), Resources: &runtimeapi.ContainerResources{Linux: c.Linux.Resources},
		User: &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 7, Gid: 8, SupplementalGroups: []int64{8, 9}}},
	}
	if got := h.status(id); !proto.Equal(got, want) {
		t.Errorf("status:\nwant %v\n got %v", want, got)
	}
	update := &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{CpuQuota: 5, MemoryLimitInBytes: 2000},
	}
	must(h.UpdateContainerResources(h.ctx, update))
	want.Resources.Linux = &runtimeapi.LinuxContainerResources{CpuShares: 102, CpuQuota: 5, MemoryLimitInBytes: 2000}
	if got := h.status(id).Resources; !proto.Equal(got, want.Resources) {
		t.Errorf("resources after an update: want %v, got %v", want.Resources, got)
	}
	update.ContainerId = "none"
	_, err := h.UpdateContainerResources(h.ctx, update)
	wantCode(t, "update of no container", err, codes.NotFound)
}

func TestStopContainer(t *testing.T) {
	h := start(t, Options{})
	pod := h.pod("p")
	polite, deaf, done := h.run(pod, "polite"), h.run(pod, "deaf"), h.run(pod, "done", "exit 5")
	waiting := must(h.create(pod, containerConfig("waiting")))
	h.clock.Step(time.Second)
	h.stopContainer(polite, 30)
	h.stopContainer(deaf, 0)
	h.stopContainer(done, 30)
	h.stopContainer(waiting, 30)
	h.stopContainer("none", 30)
	h.clock.Step(time.Second)
	h.stopContainer(polite, 0)
	h.wantExit("polite", polite, exit{exited, 0, time.Second, 143, "Error"})
	h.wantExit("no grace", deaf, exit{exited, 0, time.Second, 137, "Error"})
	h.wantExit("done before", done, exit{exited, 0, 0, 5, "Error"})
	h.wantExit("never started", waiting, exit{created, never, never, 0, ""})
}

func TestStopContainerThatIgnoresTerm(t *testing.T) {
	for _, c := range []struct {
		what, command string
		during        func(h *harness, pod, id string)
		want          exit
	}{
		{"whole grace period", "ignore TERM", func(h *harness, _, _ string) { h.clock.Step(30 * time.Second) },
			exit{exited, 0, 30 * time.Second, 137, "Error"}},
		{"exit meanwhile", "ignore TERM; exit 6 after 10s", func(h *harness, _, _ string) { h.clock.Step(10 * time.Second) },
			exit{exited, 0, 10 * time.Second, 6, "Error"}},
		{"second stop without grace", "ignore TERM", func(h *harness, _, id string) { h.stopContainer(id, 0) },
			exit{exited, 0, 0, 137, "Error"}},
		{"sandbox stopped", "ignore TERM", func(h *harness, pod, _ string) { h.stopPod(pod) },
			exit{exited, 0, 0, 137, "Error"}},
	} {
		h := start(t, Options{})
		pod := h.pod("p")
		id := h.run(pod, "c", c.command)
		stopped := make(chan struct{})
		go func() { h.stopContainer(id, 30); close(stopped) }()
		h.wait("the stop to wait", h.clock.HasWaiters)
		h.wantExit(c.what+", before", id, exit{running, 0, never, 0, ""})
		c.during(h, pod, id)
		<-stopped
		h.wantExit(c.what, id, c.want)
	}
}

func TestContainersTakeTheirTimeToStart(t *testing.T) {
	h := start(t, Options{StartTime: time.Second})
	pod := h.pod("p")
	starting := func(ctx context.Context, name string) (id string, done chan error) {
		id, err := h.create(pod, containerConfig(name, "/pause"))
		if err != nil {
			t.Fatal(err)
		}
		done = make(chan error)
		go func() {
			_, err := h.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
			done <- err
		}()
		h.wait("the start to wait", h.clock.HasWaiters)
		h.wantExit(name+", before", id, exit{created, never, never, 0, ""})
		return id, done
	}
	id, done := starting(h.ctx, "patient")
	h.clock.Step(time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.wantExit("patient", id, exit{running, time.Second, never, 0, ""})

	ctx, cancel := context.WithCancel(h.ctx)
	id, done = starting(ctx, "cancelled")
	cancel()
	wantCode(t, "start", <-done, codes.Canceled)
	h.wait("the start to end", func() bool { return h.status(id).State == exited })
	h.wantExit("cancelled", id, exit{exited, time.Second, time.Second, 128, "StartError"})
}

func TestStopContainerGivesUpWithItsCaller(t *testing.T) {
	h := start(t, Options{})
	id := h.run(h.pod("p"), "c", "ignore TERM")
	ctx, cancel := context.WithCancel(h.ctx)
	stopped := make(chan error)
	go func() {
		_, err := h.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: math.MaxInt64})
		stopped <- err
	}()
	h.wait("the stop to wait", h.clock.HasWaiters)
	cancel()
	wantCode(t, "stop", <-stopped, codes.Canceled)
	h.wait("the stop to end", func() bool { return !h.clock.HasWaiters() })
	h.wantExit("container", id, exit{running, 0, never, 0, ""})
}

// wait waits for what another goroutine does in real time.
func (h *harness) wait(what string, done func() bool) {
	h.t.Helper()
	for !done() {
		if h.ctx.Err() != nil {
			h.t.Fatalf("waited for %s for 30 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestStartContainerOnlyOnce(t *testing.T) {
	h := start(t, Options{})
	pod := h.pod("p")
	id := h.run(pod, "c", "sleep 5")
	wantCode(t, "start while running", h.startContainer(id), codes.FailedPrecondition)
	h.clock.Step(5 * time.Second)
	wantCode(t, "start after the exit", h.startContainer(id), codes.FailedPrecondition)
	wantCode(t, "start of none", h.startContainer("none"), codes.NotFound)
	h.wantExit("container", id, exit{exited, 0, 5 * time.Second, 0, "Completed"})
}

func TestContainerNamesAndRemoval(t *testing.T) {
	h := start(t, Options{})
	pod := h.pod("p")
	id := h.run(pod, "c", "exit 1")
	_, err := h.create(pod, containerConfig("c"))
	wantCode(t, "attempt 0 again", err, codes.AlreadyExists)
	second := containerConfig("c")
	second.Metadata.Attempt = 1
	must(h.create(pod, second))
	h.run(h.pod("other"), "c")
	h.status(id) // exited, and there until removed
	for range 2 {
		must(h.RemoveContainer(h.ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}))
	}
	_, err = h.ContainerStatus(h.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	wantCode(t, "status after removal", err, codes.NotFound)
	again := h.run(pod, "c")
	must(h.RemoveContainer(h.ctx, &runtimeapi.RemoveContainerRequest{ContainerId: again})) // running
	for _, c := range []*runtimeapi.ContainerConfig{nil, {Metadata: &runtimeapi.ContainerMetadata{Name: "x"}}, {Image: second.Image}} {
		_, err := h.create(pod, c)
		wantCode(t, "config without name or image", err, codes.InvalidArgument)
	}
}

func TestMounts(t *testing.T) {
	h := start(t, Options{})
	pod, dir := h.pod("p"), tempDir(t)
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if os.Symlink(dir, link) != nil || os.Symlink(filepath.Join(dir, "none"), dangling) != nil {
		t.Fatal("cannot make links")
	}
	private := runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	both := runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	image := &runtimeapi.ImageSpec{Image: "x"}
	for _, c := range []struct {
		what  string
		mount *runtimeapi.Mount
		want  codes.Code
	}{
		{"directory", &runtimeapi.Mount{ContainerPath: "/m", HostPath: dir, Propagation: both, SelinuxRelabel: true}, codes.OK},
		{"read-only", &runtimeapi.Mount{ContainerPath: "/m", HostPath: dir, Readonly: true}, codes.OK},
		{"recursively read-only", &runtimeapi.Mount{ContainerPath: "/m", HostPath: dir, Readonly: true, RecursiveReadOnly: true, Propagation: private},
			codes.OK},
		{"link", &runtimeapi.Mount{ContainerPath: "/m", HostPath: link}, codes.OK},
		{"image", &runtimeapi.Mount{ContainerPath: "/m", Image: image}, codes.OK},
		{"nothing there", &runtimeapi.Mount{ContainerPath: "/m", HostPath: filepath.Join(dir, "none")}, codes.NotFound},
		{"dangling link", &runtimeapi.Mount{ContainerPath: "/m", HostPath: dangling}, codes.NotFound},
		{"no host path", &runtimeapi.Mount{ContainerPath: "/m"}, codes.NotFound},
		{"below a file", &runtimeapi.Mount{ContainerPath: "/m", HostPath: "/proc/self/status/x"}, codes.Internal},
		{"no container path", &runtimeapi.Mount{HostPath: dir}, codes.InvalidArgument},
		{"image and host path", &runtimeapi.Mount{ContainerPath: "/m", HostPath: dir, Image: image}, codes.InvalidArgument},
		{"recursively read-only and writable", &runtimeapi.Mount{ContainerPath: "/m", HostPath: dir, RecursiveReadOnly: true}, codes.InvalidArgument},
		{"recursively read-only and shared",
			&runtimeapi.Mount{ContainerPath: "/m", HostPath: dir, Readonly: true, RecursiveReadOnly: true, Propagation: both}, codes.InvalidArgument},
	} {
		config := containerConfig("c")
		config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/ok", HostPath: dir}, c.mount}
		id, err := h.create(pod, config)
		wantCode(t, c.what, err, c.want)
		must(h.RemoveContainer(h.ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})) // a failed creation leaves no name behind
	}
}

func TestStartFailsWhenTheMountIsGone(t *testing.T) {
	h := start(t, Options{})
	volume := filepath.Join(tempDir(t), "volume")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	config := containerConfig("c")
	config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/m", HostPath: volume}}
	id := must(h.create(h.pod("p"), config))
	if err := os.Remove(volume); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "start", h.startContainer(id), codes.NotFound)
	h.wantExit("container", id, exit{exited, 0, 0, 128, "StartError"})
	if h.status(id).Message == "" {
		t.Error("message: want the cause, got none")
	}
}

func TestContainerLog(t *testing.T) {
	h := start(t, Options{})
	dir := tempDir(t)
	pod := podConfig("p", 0)
	pod.LogDirectory = dir
	sandbox := must(h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: pod})).PodSandboxId
	prepare := func(name, log, command string) string {
		c := containerConfig(name, command)
		c.LogPath = log
		return must(h.create(sandbox, c))
	}
	reopen := func(id string) error {
		_, err := h.ReopenContainerLog(h.ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
		return err
	}
	id, log := prepare("c", "0.log", "sleep 5"), filepath.Join(dir, "0.log")
	wantCode(t, "reopen before the start", reopen(id), codes.FailedPrecondition)
	if err := h.startContainer(id); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(log, log+".old"); err != nil {
		t.Fatalf("log of a started container: %v", err)
	}
	wantCode(t, "reopen", reopen(id), codes.OK)
	if _, err := os.Stat(log); err != nil {
		t.Errorf("log after reopening: %v", err)
	}
	h.clock.Step(5 * time.Second)
	wantCode(t, "reopen after the exit", reopen(id), codes.FailedPrecondition)
	wantCode(t, "reopen of none", reopen("none"), codes.NotFound)
	lost := prepare("lost", "no-such-directory/0.log", "")
	wantCode(t, "start without a log directory", h.startContainer(lost), codes.Internal)
}

// A log that is a pipe without a reader holds a start up, as a slow disk would.
func TestRemovalDuringStart(t *testing.T) {
	h := start(t, Options{})
	pod := podConfig("p", 0)
	pod.LogDirectory = tempDir(t)
	sandbox := must(h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: pod})).PodSandboxId
	config := containerConfig("c")
	config.LogPath = "pipe"
	pipe := filepath.Join(pod.LogDirectory, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	id := must(h.create(sandbox, config))
	started := make(chan error)
	go func() { started <- h.startContainer(id) }()
	h.wait("the start to begin", func() bool {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		return h.server.containers[id].starting
	})
	wantCode(t, "second start", h.startContainer(id), codes.FailedPrecondition)
	h.wantExit("container", id, exit{created, never, never, 0, ""}) // and no other call is held up
	must(h.RemoveContainer(h.ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}))
	reader, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	wantCode(t, "start of what was removed meanwhile", <-started, codes.NotFound)
	if n := len(h.server.Pods()[0].Containers); n != 0 {
		t.Errorf("containers: want none, got %d", n)
	}
}
