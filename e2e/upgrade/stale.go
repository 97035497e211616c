package upgrade

import (
	"context"
	"fmt"

	"headroom/e2e/framework/cluster"
)

// A stale writer is a controller that writes a count of a CSINode which it read long ago: values roll back. A walk can have one write once in each bake in
// which counts follow quotas; the rule "values-roll-back" must then pause growth, and the next tick of the kubelet puts the count right.

// staleWrite reads a node's count, lets the quota change, waits until the CSINode shows that, and writes what it read. No quota changes meanwhile: a count
// that goes back when the quota does is no rollback.
func (w *walk) staleWrite(ctx context.Context) error {
	w.load.quota.Lock()
	defer w.load.quota.Unlock()
	node := w.Nodes[0]
	read, err := w.Count(ctx, node)
	if err != nil {
		return err
	}
	if read == nil {
		return fmt.Errorf("CSINode %q: want a count to write back later, got none", node)
	}
	to := int64(leastRoom)
	if *read == leastRoom {
		to = mostRoom
	}
	if err := w.Quota.SetLimit(ctx, node, to); err != nil {
		return cluster.Environment("change a limit", err)
	}
	if err := tried(func() { w.AwaitCount(ctx, node, int32(to), w.bakes.bounds().UpdateDelay) }); err != nil {
		return err
	}
	_, err = w.putBack(ctx, node, *read)
	return err
}
