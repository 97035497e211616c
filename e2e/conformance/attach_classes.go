package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
	"headroom/fixtures/quota"
)

func init() {
	r := run.Requirement{
		ID: "attach-classes",
		Claim: "An attach that fails for lack of room, permission, topology, credentials or network says so in attachError.errorCode, " +
			"and only lack of room makes the kubelet refresh the count and reject the pod.",
		Source:   "KEP-4876, reactive updates; CSI spec 1.12, ControllerPublishVolume errors",
		Boundary: history.Driver,
		Labels:   []string{run.LabelSlow},
		Needs:    rejected,
		Setup:    run.Setup{Period: run.Never, Changes: true},
		Test:     attachClasses,
	}
	for _, c := range classes {
		r.Setup.Nodes = append(r.Setup.Nodes, c.node)
	}
	run.Register(r)
}

// class is one way in which an attach fails, on a node of its own.
type class struct {
	name string
	node run.Node
	// prepare breaks the backend for the node, after the node has reported its count.
	prepare func(ctx context.Context, b *run.Bench, node string)
	volume  workload.VolumeOptions
	// codes are the honest answers.
	codes []codes.Code
}

var classes = []class{
	{
		name: "capacity", node: run.Node{Limit: 3}, codes: []codes.Code{codes.ResourceExhausted},
		prepare: func(ctx context.Context, b *run.Bench, node string) { b.SetForeign(ctx, node, 3) },
	},
	{
		name: "permission", node: run.Node{Limit: 3}, codes: []codes.Code{codes.PermissionDenied},
		prepare: func(ctx context.Context, b *run.Bench, node string) { breakAttach(ctx, b, node, quota.Forbidden) },
	},
	{
		name: "topology", node: run.Node{Limit: 3, Zone: "a"}, codes: []codes.Code{codes.InvalidArgument, codes.FailedPrecondition},
		volume: workload.VolumeOptions{Zone: "b"},
	},
	{
		name: "network", node: run.Node{Limit: 3}, codes: []codes.Code{codes.Unavailable, codes.DeadlineExceeded},
		prepare: func(ctx context.Context, b *run.Bench, node string) { breakAttach(ctx, b, node, quota.Refuse) },
	},
	{
		name: "no such volume", node: run.Node{Limit: 3}, codes: []codes.Code{codes.NotFound},
		volume: workload.VolumeOptions{Unknown: true},
	},
	{
		name: "credentials", node: run.Node{Limit: 3}, codes: []codes.Code{codes.Unauthenticated},
		volume: workload.VolumeOptions{Secret: "right", Offered: "wrong"},
	},
}

// breakAttach breaks attaching on a node and nothing else, so that the node's quota stays known.
func breakAttach(ctx context.Context, b *run.Bench, node string, mode quota.Mode) {
	b.Break(ctx, quota.Fault{Mode: mode, Nodes: []string{node}, Operations: []quota.Operation{quota.Attach}})
}

func attachClasses(ctx context.Context, b *run.Bench) {
	pods := make([]run.Pod, len(classes))
	for i, c := range classes {
		b.AwaitCount(ctx, b.Nodes[i], 3, run.Scheduled)
		if c.prepare != nil {
			c.prepare(ctx, b, b.Nodes[i])
		}
		v, err := b.Volume(ctx, c.volume)
		b.Check(err)
		pods[i], err = b.Pod(ctx, b.On(i), v)
		b.Check(err)
	}
	for i, c := range classes {
		b.AwaitAttachCode(ctx, b.Nodes[i], c.name, c.codes...)
	}
	asked := make([]int, len(classes))
	for i, node := range b.Nodes {
		asked[i] = b.Asked(ctx, node)
	}
	// The kubelet looks at the code when its wait for the volume ends, 123 s after it began.
	b.Check(b.AwaitFailed(ctx, pods[0], run.RejectionReason, run.Rejection+b.Slack()))
	b.AwaitCount(ctx, b.Nodes[0], 1, run.Scheduled)
	for i, c := range classes {
		refreshed := b.Asked(ctx, b.Nodes[i]) - asked[i]
		switch {
		case i == 0 && refreshed == 0:
			b.Check(fmt.Errorf("%s on node %q: want NodeGetInfo after the failed attach, got none", c.name, b.Nodes[i]))
		case i > 0 && refreshed > 0:
			b.Check(fmt.Errorf("%s on node %q: want no NodeGetInfo, for only lack of room changes a count, got %d", c.name, b.Nodes[i], refreshed))
		}
		if i > 0 {
			b.StillPending(ctx, pods[i])
		}
	}
}
