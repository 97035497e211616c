package chaos

import (
	"context"
	"math/rand/v2"

	"headroom/e2e/framework/scenario"
)

// Sockets of a driver, as a cluster with a registry names them.
const (
	socketCSI          = "csi"
	socketRegistration = "registration"
)

func init() {
	define(Fault{
		Name: "registration-delay", Targets: []scenario.Class{scenario.NodeDriver}, Supports: needsRegistry,
		Doc: "A driver is up, and its registration is missing: the kubelet removes its entry from CSINode, which is unlimited to the scheduler. " +
			"Healing registers it and returns when the kubelet has accepted.",
	}, none{}, func(ctx context.Context, t Target, _ *rand.Rand, _ *none) (Heal, error) {
		c := t.Cluster.(registry)
		if err := c.SetSocket(ctx, t.Node(), t.Driver, socketRegistration, false); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return c.Register(ctx, t.Node(), t.Driver, false) }, nil
	})
}
