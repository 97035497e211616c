package conformance

import (
	"context"
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "stale-write",
		Claim: "A CSINode update that carries a resourceVersion older than the object's is refused with 409, one that carries none with 422, " +
			"and neither changes the count.",
		Source:   "Kubernetes API conventions, concurrency control; kubernetes pkg/registry/storage/csinode, AllowUnconditionalUpdate",
		Boundary: history.APIServer,
		Labels:   []string{run.LabelSmoke},
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest, Changes: true},
		Test:     staleWrite,
	})
}

func staleWrite(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Shortest)
	old, err := b.Client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	b.Check(err)
	count := newer(ctx, b, old)

	err = writeBack(ctx, b, old)
	if !apierrors.IsConflict(err) {
		b.Check(fmt.Errorf("update of CSINode %q with resourceVersion %s: want 409 Conflict, got %v", node, old.ResourceVersion, err))
	}
	unconditional := old.DeepCopy()
	unconditional.ResourceVersion = ""
	err = writeBack(ctx, b, unconditional)
	if !apierrors.IsInvalid(err) {
		b.Check(fmt.Errorf("update of CSINode %q without a resourceVersion: want 422 Invalid, got %v", node, err))
	}
	b.AwaitCount(ctx, node, count, run.Scheduled)
}

// newer lets a CSINode change once, and returns its count then. Where the kubelet does not refresh counts, a label changes instead.
func newer(ctx context.Context, b *run.Bench, n *storagev1.CSINode) int32 {
	if slices.ContainsFunc(refreshed, func(feature string) bool { return !b.Rule(feature).Works }) {
		labelled := n.DeepCopy()
		labelled.Labels = map[string]string{"headroom.dev/newer": "true"}
		b.Check(writeBack(ctx, b, labelled))
		return 4
	}
	b.SetLimit(ctx, n.Name, 3)
	b.AwaitCount(ctx, n.Name, 3, run.Shortest+b.Slack())
	return 3
}

// writeBack writes a CSINode as a controller of the suite's own, on the record.
func writeBack(ctx context.Context, b *run.Bench, n *storagev1.CSINode) error {
	return b.Record("update", "csinode", n.Name, run.Administrator, func() error {
		_, err := b.Client.StorageV1().CSINodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
}
