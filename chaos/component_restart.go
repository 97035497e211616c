package chaos

import (
	"context"
	"math/rand/v2"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
)

// restartParams say how a process ends before it starts again.
type restartParams struct {
	// Kill ends it without a farewell.
	Kill bool `yaml:"kill,omitempty"`
}

func init() {
	define(Fault{
		Name: "component-restart", Targets: scenario.Processes,
		Doc: "A process ends and starts again at once. It is healthy when the injection returns, so there is nothing to heal.",
	}, restartParams{}, restart)
}

func restart(ctx context.Context, t Target, _ *rand.Rand, p *restartParams) (Heal, error) {
	c, err := t.Component(ctx)
	if err != nil {
		return nil, err
	}
	how := cluster.Terminate
	if p.Kill {
		how = cluster.Kill
	}
	if err := cluster.Restart(ctx, c, how); err != nil {
		return nil, err
	}
	return healed, nil
}

// healed is the healing of what is over when it is injected.
func healed(context.Context) error { return nil }
