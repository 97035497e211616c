package conformance

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

const (
	// fleet is more nodes than phases-spread needs, so that some that are late do not leave it unjudged.
	fleet = 20
	// realigned is the period that the CSIDriver is changed to, which restarts the ticker of every kubelet at the same moment.
	realigned = 11 * time.Second
)

func init() {
	r := run.Requirement{
		ID: "aligned-periods",
		Claim: "When a changed period has aligned the tickers of all kubelets, a driver on many nodes still does not ask its backend all at once: " +
			"its queries are spread over the period.",
		Source:   "kubernetes pkg/volume/csi/csi_node_updater.go: a plain ticker without jitter",
		Boundary: history.Driver,
		Labels:   []string{run.LabelLong},
		Needs:    refreshed,
		Setup:    run.Setup{Period: run.Shortest, Changes: true},
		Limit:    10 * time.Minute,
		Test:     alignedPeriods,
	}
	for range fleet {
		r.Setup.Nodes = append(r.Setup.Nodes, run.Node{Limit: 4})
	}
	run.Register(r)
}

// alignedPeriods lets time go by on aligned kubelets; the judgement is the invariant's.
func alignedPeriods(ctx context.Context, b *run.Bench) {
	for _, node := range b.Nodes {
		b.AwaitCount(ctx, node, 4, run.Shortest)
	}
	b.Check(b.Record("patch", "csidriver", b.Driver, run.Administrator, func() error {
		patch := fmt.Appendf(nil, `{"spec":{"nodeAllocatableUpdatePeriodSeconds":%d}}`, realigned/time.Second)
		_, err := b.Client.StorageV1().CSIDrivers().Patch(ctx, b.Driver, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}))
	// Twenty periods between the first and the last tick that count, and one on either side.
	after := history.Now() + 22*realigned
	for _, node := range b.Nodes {
		b.NextAnswer(ctx, node, after)
	}
}
