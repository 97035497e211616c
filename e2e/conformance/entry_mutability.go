package conformance

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func init() {
	run.Register(run.Requirement{
		ID:       "entry-mutability",
		Claim:    "Of a CSINode's entry the API server lets the count change in place, absent included, and refuses another nodeID or other topologyKeys with 422.",
		Source:   "KEP-4876, mutability; kubernetes pkg/apis/storage/validation, ValidateCSINodeUpdate",
		Boundary: history.APIServer,
		Needs:    []string{versions.CountMutable},
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Never},
		Test:     entryMutability,
	})
}

func entryMutability(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Scheduled)
	seven := int32(7)
	b.Check(changeEntry(ctx, b, node, func(d *storagev1.CSINodeDriver) { d.Allocatable = &storagev1.VolumeNodeResources{Count: &seven} }))
	b.Check(changeEntry(ctx, b, node, func(d *storagev1.CSINodeDriver) { d.Allocatable = nil }))
	b.WantInvalid("change the nodeID of a CSINode's entry",
		changeEntry(ctx, b, node, func(d *storagev1.CSINodeDriver) { d.NodeID += "-other" }))
	b.WantInvalid("change the topologyKeys of a CSINode's entry",
		changeEntry(ctx, b, node, func(d *storagev1.CSINodeDriver) { d.TopologyKeys = append(d.TopologyKeys, "headroom.dev/other") }))
	b.AwaitCount(ctx, node, 4, run.Scheduled)
}

// changeEntry asks whether the API server would take a change of the driver's entry: it goes all the way but is not stored, since the entry is the kubelet's.
func changeEntry(ctx context.Context, b *run.Bench, node string, change func(*storagev1.CSINodeDriver)) error {
	nodes := b.Client.StorageV1().CSINodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := nodes.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range n.Spec.Drivers {
			if n.Spec.Drivers[i].Name == b.Driver {
				change(&n.Spec.Drivers[i])
				_, err = nodes.Update(ctx, n, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}
		}
		return fmt.Errorf("CSINode %q: want an entry of driver %q, got none", node, b.Driver)
	})
}
