package run

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"headroom/e2e/framework/cluster"
)

// Part returns a component of the cluster by its id, such as "kubelet@n1".
func (b *Bench) Part(ctx context.Context, id string) cluster.Component {
	all, err := b.Cluster.Components(ctx)
	b.Check(cluster.Environment("list the components", err))
	for _, c := range all {
		if c.ID() == id {
			return c
		}
	}
	b.Check(cluster.Environment("find a component", fmt.Errorf("no component %q in this cluster", id)))
	return nil
}

// Stop stops a component.
func (b *Bench) Stop(ctx context.Context, id string, how cluster.Signal) {
	b.Check(cluster.Environment("stop "+id, b.Part(ctx, id).Stop(ctx, how)))
}

// StartAgain starts a component that was stopped, at the version it had, and returns once it is healthy.
func (b *Bench) StartAgain(ctx context.Context, id string) {
	b.Check(cluster.Environment("start "+id, b.Part(ctx, id).Start(ctx, "")))
}

// Restart stops a component in the way given and starts it again after a while. Without a while it suits what cannot stay away, too.
func (b *Bench) Restart(ctx context.Context, id string, how cluster.Signal, down time.Duration) {
	if down == 0 {
		b.Check(cluster.Environment("restart "+id, cluster.Restart(ctx, b.Part(ctx, id), how)))
		return
	}
	b.Stop(ctx, id, how)
	interrupted := Pause(ctx, down)
	b.StartAgain(ctx, id)
	b.Check(interrupted)
}

// SetPeriod changes how often the kubelet asks the bench's driver; nil unsets it.
func (b *Bench) SetPeriod(ctx context.Context, seconds *int64) {
	value := "null"
	if seconds != nil {
		value = fmt.Sprint(*seconds)
	}
	patch := fmt.Sprintf(`{"spec":{"nodeAllocatableUpdatePeriodSeconds":%s}}`, value)
	_, err := b.Client.StorageV1().CSIDrivers().Patch(ctx, b.Driver, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	b.Check(err)
}

// AwaitAsked waits until the kubelet of a node has asked the driver more than before times, counted from the start of the node.
func (b *Bench) AwaitAsked(ctx context.Context, node string, before int, within time.Duration) {
	b.Await(ctx, within, func(ctx context.Context) error {
		if got := b.Asked(ctx, node); got <= before {
			return fmt.Errorf("NodeGetInfo of node %q: want more than %d calls, got %d", node, before, got)
		}
		return nil
	})
}

// Elapse lets time pass in which nothing is to happen: the invariants judge afterwards whether nothing did.
func (b *Bench) Elapse(ctx context.Context, d time.Duration) {
	b.Check(Pause(ctx, d))
}

// WantInvalid checks that the API server refused a request for what is in it (422).
func (b *Bench) WantInvalid(what string, err error) {
	if !apierrors.IsInvalid(err) {
		b.Check(fmt.Errorf("%s: want 422 Invalid, got %v", what, err))
	}
}
