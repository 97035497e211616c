package chaos

import (
	"context"
	"math/rand/v2"

	"headroom/e2e/framework/scenario"
)

func init() {
	define(Fault{
		Name: "driver-surge", Targets: []scenario.Class{scenario.NodeDriver}, Supports: needsRegistry,
		Doc: "A new instance of the driver registers at the same socket path; then the old one ends and unlinks what it takes for its own socket. The driver " +
			"runs and is not registered. Healing registers it again. Only the registration is doubled: one process goes on answering.",
	}, none{}, func(ctx context.Context, t Target, _ *rand.Rand, _ *none) (Heal, error) {
		c := t.Cluster.(registry)
		if err := c.Register(ctx, t.Node(), t.Driver, true); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return c.Register(ctx, t.Node(), t.Driver, false) }, nil
	})
}
