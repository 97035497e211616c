package chaos

import (
	"context"
	"math/rand/v2"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
)

func init() {
	define(Fault{
		Name: "component-kill", Targets: scenario.Processes,
		Doc: "A process is killed and stays away. Healing starts it again at the version that it had.",
	}, none{}, func(ctx context.Context, t Target, _ *rand.Rand, _ *none) (Heal, error) {
		c, err := t.Component(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.Stop(ctx, cluster.Kill); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return c.Start(ctx, "") }, nil
	})
}
