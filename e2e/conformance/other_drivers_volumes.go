package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
)

func init() {
	run.Register(run.Requirement{
		ID:       "other-drivers-volumes",
		Claim:    "Volumes of another CSI driver on a node do not count against a driver's limit there: pods that use the limit to the full are placed beside them.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, Filter",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}}, Period: run.Shortest},
		Test:     otherDriversVolumes,
	})
}

func otherDriversVolumes(ctx context.Context, b *run.Bench) {
	const limit = 2
	b.AwaitCount(ctx, b.Nodes[0], limit, run.Shortest)
	for range limit + 1 {
		v, err := b.Volume(ctx, workload.VolumeOptions{Driver: "nobody.headroom.test", Unknown: true})
		b.Check(err)
		pod, err := b.Pod(ctx, b.On(), v)
		b.Check(err)
		b.AwaitScheduled(ctx, pod)
	}
	b.StartPods(ctx, limit)
	b.WaitingPod(ctx, 1)
}
