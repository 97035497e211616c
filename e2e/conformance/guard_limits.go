package conformance

import (
	"context"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func init() {
	run.Register(run.Requirement{
		ID: "guard-limits",
		Claim: "The guard denies no CSINode that is being created. A growth that it denies to a kubelet that registers its driver makes the kubelet remove the " +
			"entry, which is unlimited, until it registers again with whatever count there is: the guard's bound must be above any growth that can happen " +
			"while a kubelet is down.",
		Source:   "kubernetes pkg/volume/csi/csi_plugin.go, RegisterPlugin; fixtures/manifests/csinode-guard.yaml",
		Boundary: history.APIServer,
		Needs:    []string{versions.CountMutable},
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Never, Changes: true},
		Test:     guardLimits,
	})
}

func guardLimits(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Scheduled)
	guarded(ctx, b, "0", func() {
		createBehindGuard(ctx, b)
		kubelet := "kubelet@" + node
		b.Stop(ctx, kubelet, cluster.Terminate)
		b.SetLimit(ctx, node, 40)
		d := b.Header.Params.Driver
		b.Elapse(ctx, time.Duration(max(d.CacheAge, d.StepInterval))+time.Second) // so long the driver may answer 4
		before := withoutEntry(b, node)
		b.StartAgain(ctx, kubelet) // it registers the driver, whose answer has grown by its step
		b.Await(ctx, run.PodStart, func(context.Context) error {
			if got := withoutEntry(b, node); got == before {
				return fmt.Errorf("CSINode %q: want the driver's entry removed when its growth at registration is denied, got no such revision", node)
			}
			return nil
		})
		b.Await(ctx, run.PodStart, func(ctx context.Context) error {
			got, err := b.Count(ctx, node)
			if err == nil && (got == nil || *got <= 4) {
				err = fmt.Errorf("CSINode %q: want a count above 4, which only a new entry can bring behind this guard, got %v", node, got)
			}
			return err
		})
	})
}

// createBehindGuard makes a CSINode of a node's name that the guard covers, as a stranger would not be allowed to change it.
func createBehindGuard(ctx context.Context, b *run.Bench) {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: newNode(b)}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: b.Driver, NodeID: "new"}},
	}}
	nodes := b.Client.StorageV1().CSINodes()
	b.Check(b.Record("create", "csinode", n.Name, run.Administrator, func() error { _, err := nodes.Create(ctx, n, metav1.CreateOptions{}); return err }))
	b.Check(b.Record("delete", "csinode", n.Name, run.Administrator, func() error { return nodes.Delete(ctx, n.Name, metav1.DeleteOptions{}) }))
}

// withoutEntry counts the revisions of a node's CSINode, so far, that have no entry of the bench's driver.
func withoutEntry(b *run.Bench, node string) int {
	return b.Seen(history.PrefixAPI+"csinodes", func(e history.Event) bool {
		var n history.CSINode
		if e.Key != node || e.Decode(&n) != nil || n.Type == "DELETED" {
			return false
		}
		for _, d := range n.Drivers {
			if d.Name == b.Driver {
				return false
			}
		}
		return true
	})
}
