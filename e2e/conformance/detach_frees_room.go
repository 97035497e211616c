package conformance

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "detach-frees-room",
		Claim:    "On a full node a pod waits until another one has gone and its volume is detached, and is then placed without the scheduler's 5 minute flush.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, QueueingHint on the end of a VolumeAttachment",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}}, Period: run.Shortest},
		Test:     detachFreesRoom,
	})
}

func detachFreesRoom(ctx context.Context, b *run.Bench) {
	b.AwaitCount(ctx, b.Nodes[0], 2, run.Shortest)
	running := b.StartPods(ctx, 2)
	waiting := b.WaitingPod(ctx, 1)
	b.Check(b.DeletePod(ctx, running[0].Name))
	if err := b.AwaitRunning(ctx, waiting, run.Detached+run.Requeued+run.PodStart); err != nil {
		b.Check(refusedRoom(ctx, b, waiting, err))
	}
	b.StillRunning(ctx, running[1])
}

// refusedRoom lays it to the driver that a pod does not run which was placed where a volume was detached: it refuses an attach that fits, as one does that
// leaks attachments.
func refusedRoom(ctx context.Context, b *run.Bench, pod run.Pod, failed error) error {
	p, err := b.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil || p.Spec.NodeName == "" {
		return failed
	}
	all, err := b.Attachments(ctx)
	if err != nil {
		return failed
	}
	for _, va := range all {
		if e := va.Status.AttachError; va.Spec.NodeName == p.Spec.NodeName && !va.Status.Attached && e != nil {
			return run.Blame(history.Driver, fmt.Errorf("pod %q was placed on node %q once a volume was detached there: want its own attached in that room, got it refused: %s: "+
				"the driver may leak what it said it detached (%w)", p.Name, p.Spec.NodeName, e.Message, failed))
		}
	}
	return failed
}
