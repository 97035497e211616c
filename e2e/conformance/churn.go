package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "churn",
		Claim:    "Pods that come and go on nodes that are full all get their turn, and no place is lost on the way.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits; pkg/controller/volume/attachdetach",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}, {Limit: 2}}, Period: run.Shortest},
		Test:     churn,
	})
}

func churn(ctx context.Context, b *run.Bench) {
	const room, rounds, atOnce = 4, 3, 2
	for _, node := range b.Nodes {
		b.AwaitCount(ctx, node, 2, run.Shortest)
	}
	pods := b.StartPods(ctx, room)
	for range rounds {
		var next []run.Pod
		for range atOnce {
			pod, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
			b.Check(err)
			next = append(next, pod)
		}
		for _, old := range pods[:atOnce] {
			b.Check(b.DeletePod(ctx, old.Name))
		}
		pods = append(pods[atOnce:], next...)
		for _, pod := range next {
			b.Check(b.AwaitRunning(ctx, pod, run.Detached+run.Requeued+run.PodStart))
		}
	}
	for _, node := range b.Nodes {
		b.AwaitAttached(ctx, node, 2, run.Detached)
	}
}
