package cri

import (
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exit codes and reasons as containerd reports them.
const (
	exitKilled       = 128 + 9
	exitTerminated   = 128 + 15
	exitStartFailed  = 128
	reasonCompleted  = "Completed"
	reasonError      = "Error"
	reasonStartError = "StartError"
)

// container is one container, of one attempt. It holds no timer: whoever looks at it settles it first, so an exit is seen with its exact time
// however late, and a container that nobody looks at costs nothing.
type container struct {
	id        string
	serial    uint64
	name      string // as reserved
	sandbox   *sandbox
	config    *runtimeapi.ContainerConfig
	resources *runtimeapi.LinuxContainerResources
	image     *runtimeapi.Image
	program   Program

	state    runtimeapi.ContainerState
	starting bool
	// Times are zero when not yet. They keep their monotonic reading: a step of the wall clock lengthens nobody's life.
	created, started, finished time.Time
	code                       int32
	reason, message            string
	// ended is closed when somebody ends the container. An exit of its own accord does not close it: no one is there to do it.
	ended chan struct{}
}

// settle lets the container exit if its program has come to an end by now.
func (c *container) settle(now time.Time) {
	if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING && c.program.Exits && now.Sub(c.started) >= c.program.After {
		c.exit(c.started.Add(c.program.After), c.program.Code)
	}
}

// left is how long the container will go on by itself; false when it has no end.
func (c *container) left(now time.Time) (time.Duration, bool) {
	return c.program.After - now.Sub(c.started), c.program.Exits
}

// kill ends the container as SIGKILL does, unless it does not run.
func (c *container) kill(now time.Time) { c.end(now, exitKilled) }

// end makes a container that still runs exit with code.
func (c *container) end(now time.Time, code int32) {
	c.settle(now)
	if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
		c.exit(now, code)
		close(c.ended)
	}
}

// fail makes a container that did not start an exited one.
func (c *container) fail(now time.Time, err error) {
	c.exit(now, exitStartFailed)
	c.reason, c.message = reasonStartError, err.Error()
}

func (c *container) exit(at time.Time, code int32) {
	c.state, c.finished, c.code, c.reason = runtimeapi.ContainerState_CONTAINER_EXITED, at, code, reasonError
	if code == 0 {
		c.reason = reasonCompleted
	}
}

// logPath is where the kubelet expects the log; empty when it did not ask for one.
func (c *container) logPath() string {
	if c.config.GetLogPath() == "" || c.sandbox.config.GetLogDirectory() == "" {
		return ""
	}
	return filepath.Join(c.sandbox.config.GetLogDirectory(), c.config.GetLogPath())
}

// imageSpec names the image as pod statuses show it: by tag where there is one. The request itself holds only the image's id.
func (c *container) imageSpec() *runtimeapi.ImageSpec {
	spec := c.config.GetImage()
	return &runtimeapi.ImageSpec{
		Image: shownName(c.image), Annotations: spec.GetAnnotations(),
		UserSpecifiedImage: spec.GetUserSpecifiedImage(), RuntimeHandler: spec.GetRuntimeHandler(),
	}
}

// user is who the first process would be, which runtimes with the feature SupplementalGroupsPolicy report.
func (c *container) user() *runtimeapi.ContainerUser {
	sc := c.config.GetLinux().GetSecurityContext()
	gid := sc.GetRunAsGroup().GetValue()
	groups := append([]int64{gid}, sc.GetSupplementalGroups()...)
	return &runtimeapi.ContainerUser{
		Linux: &runtimeapi.LinuxContainerUser{Uid: sc.GetRunAsUser().GetValue(), Gid: gid, SupplementalGroups: groups},
	}
}

func (c *container) listed() *runtimeapi.Container {
	return &runtimeapi.Container{
		Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.GetMetadata(), Image: c.imageSpec(), ImageRef: imageRef(c.image),
		ImageId: c.image.GetId(), State: c.state, CreatedAt: stamp(c.created), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
	}
}

// status has what the client insists on (cri-client utils.go, verifyContainerStatus: id, name, creation time, image, image reference), and the
// labels, annotations and mounts from which the kubelet restores restart count and termination message. The stop signal stays unset: to
// set it is to support others than SIGTERM.
func (c *container) status() *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state,
		CreatedAt: stamp(c.created), StartedAt: stamp(c.started), FinishedAt: stamp(c.finished), ExitCode: c.code, Reason: c.reason, Message: c.message,
		Image: c.imageSpec(), ImageRef: imageRef(c.image), ImageId: c.image.GetId(),
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(), LogPath: c.logPath(),
		Resources: &runtimeapi.ContainerResources{Linux: c.resources}, User: c.user(),
	}
}
