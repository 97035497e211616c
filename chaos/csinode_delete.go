package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"headroom/e2e/framework/scenario"
)

// administrator is the API user in whose name the run writes.
const administrator = "headroom-admin"

func init() {
	define(Fault{
		Name: "csinode-delete", Targets: []scenario.Class{scenario.CSINode},
		Doc: "Somebody deletes a CSINode. The next tick makes it again, with the ticking driver only; healing waits for that, or registers the driver where " +
			"nothing ticks.",
		Supports: needsRegistry,
	}, none{}, func(ctx context.Context, t Target, _ *rand.Rand, _ *none) (Heal, error) {
		nodes := t.Client.StorageV1().CSINodes()
		err := t.Record("delete", "csinode", t.Node(), administrator, func() error { return nodes.Delete(ctx, t.Node(), metav1.DeleteOptions{}) })
		if err != nil {
			return nil, err
		}
		return t.awaitEntry, nil
	})
}

// registersAfter is how long healing waits for a tick before it registers the driver.
const registersAfter = 15 * time.Second

// awaitEntry waits until the driver has its entry in the node's CSINode again.
func (t Target) awaitEntry(ctx context.Context) error {
	there := func(ctx context.Context) (bool, error) {
		n, err := t.Client.StorageV1().CSINodes().Get(ctx, t.Node(), metav1.GetOptions{})
		return err == nil && t.entry(n) != nil, nil // asked again; the time-out tells if it goes on
	}
	if wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, registersAfter, true, there) == nil {
		return nil
	}
	if err := t.Cluster.(registry).Register(ctx, t.Node(), t.Driver, false); err != nil {
		return err
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, registersAfter, true, there); err != nil {
		return fmt.Errorf("CSINode %q: want driver %q in it again within %s of its registration: %w", t.Node(), t.Driver, registersAfter, err)
	}
	return nil
}

// entry is the driver's entry; nil when there is none.
func (t Target) entry(n *storagev1.CSINode) *storagev1.CSINodeDriver {
	for i := range n.Spec.Drivers {
		if n.Spec.Drivers[i].Name == t.Driver {
			return &n.Spec.Drivers[i]
		}
	}
	return nil
}
