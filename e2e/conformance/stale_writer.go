package conformance

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/chaos"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "stale-writer",
		Claim: "A controller that writes a CSINode back from an old read is stopped by the resourceVersion that it sends, if it sends one. A patch or an apply " +
			"without one, and any write that fetches a new resourceVersion for an old value, overwrites the newer count. The guard stops them all, in " +
			"anybody's name but the node's own.",
		Source:   "Kubernetes API conventions, concurrency control; fixtures/manifests/csinode-guard.yaml",
		Boundary: history.APIServer,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest, Changes: true},
		Test:     staleWriters,
	})
}

// outcome is what the API server makes of a stale write.
type outcome struct {
	name string
	is   func(error) bool
}

var (
	taken     = outcome{"taken", func(err error) bool { return err == nil }}
	conflict  = outcome{"409 Conflict", apierrors.IsConflict}
	invalid   = outcome{"422 Invalid", apierrors.IsInvalid}
	forbidden = outcome{"403 Forbidden", apierrors.IsForbidden}
)

// staleWrites are the ways of writing, with what comes of them without the guard and behind it.
var staleWrites = []struct {
	verb, version, as string
	free, behind      outcome
}{
	{chaos.VerbUpdate, chaos.VersionOld, "", conflict, conflict},
	{chaos.VerbUpdate, chaos.VersionNone, "", invalid, invalid},
	{chaos.VerbUpdate, chaos.VersionFresh, "", taken, forbidden},
	{chaos.VerbPatch, chaos.VersionOld, "", conflict, conflict},
	{chaos.VerbPatch, chaos.VersionNone, "", taken, forbidden},
	{chaos.VerbPatch, chaos.VersionFresh, "", taken, forbidden},
	{chaos.VerbApply, chaos.VersionOld, "", conflict, conflict},
	{chaos.VerbApply, chaos.VersionNone, "", taken, forbidden},
	{chaos.VerbApply, chaos.VersionFresh, "", taken, forbidden},
	// Another node has no right to it at all, guard or not.
	{chaos.VerbPatch, chaos.VersionNone, "other-node", forbidden, forbidden},
	// The kubelet writes in this name for any instance of a driver: the guard cannot tell an old one.
	{chaos.VerbUpdate, chaos.VersionFresh, "node", taken, taken},
}

func staleWriters(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Shortest)
	writers := make([]*chaos.Writer, len(staleWrites))
	for i, w := range staleWrites {
		writers[i] = staleWriter(ctx, b, chaos.WriterParams{Verb: w.verb, ResourceVersion: w.version, As: w.as})
	}
	b.SetLimit(ctx, node, 3)
	b.AwaitCount(ctx, node, 3, run.Shortest+b.Slack())
	// The next tick would mend what a stale write did; this is quicker.
	mend := staleWriter(ctx, b, chaos.WriterParams{Verb: chaos.VerbUpdate, ResourceVersion: chaos.VersionFresh, As: "node"})
	for i, w := range staleWrites {
		tryWrite(ctx, b, writers[i], mend, fmt.Sprintf("%s with resourceVersion %s as %q", w.verb, w.version, w.as), w.free)
	}
	guarded(ctx, b, "", func() {
		for i, w := range staleWrites {
			tryWrite(ctx, b, writers[i], mend, fmt.Sprintf("behind the guard: %s with resourceVersion %s as %q", w.verb, w.version, w.as), w.behind)
		}
		b.SetLimit(ctx, node, 2)
		b.AwaitCount(ctx, node, 2, run.Shortest+b.Slack()) // the kubelet itself is not hindered
	})
}

// tryWrite writes once. A write that is taken shows the old count 4, and is mended; any other leaves the newer count 3.
func tryWrite(ctx context.Context, b *run.Bench, w, mend *chaos.Writer, what string, want outcome) {
	got, err := w.Write(ctx)
	if !want.is(err) {
		b.Check(fmt.Errorf("%s: want it %s, got %v", what, want.name, err))
	}
	count := int32(3)
	if err == nil {
		count = 4
	} else {
		got, err = b.Client.StorageV1().CSINodes().Get(ctx, b.Nodes[0], metav1.GetOptions{})
		b.Check(err)
	}
	if d := got.Spec.Drivers; len(d) != 1 || d[0].Allocatable == nil || d[0].Allocatable.Count == nil || *d[0].Allocatable.Count != count {
		b.Check(fmt.Errorf("%s: want count %d afterwards, got %+v", what, count, d))
	}
	if count == 4 {
		_, err := mend.Write(ctx)
		b.Check(err)
	}
}
