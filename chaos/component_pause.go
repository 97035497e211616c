package chaos

import (
	"context"
	"math/rand/v2"

	"headroom/e2e/framework/scenario"
)

func init() {
	define(Fault{
		Name: "component-pause", Targets: scenario.Processes,
		Doc: "A process stands still, its connections open, as on a machine that swaps. Healing lets it go on.",
	}, none{}, func(ctx context.Context, t Target, _ *rand.Rand, _ *none) (Heal, error) {
		c, err := t.Component(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.Pause(ctx); err != nil {
			return nil, err
		}
		return c.Resume, nil
	})
}
