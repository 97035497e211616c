package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// flapParams say between what a limit goes up and down.
type flapParams struct {
	// To is the lower limit.
	To int64 `yaml:"to"`
	// Every is how long it stays, low or high.
	Every history.Duration `yaml:"every,omitempty"`
}

// Check implements scenario.Checked.
func (p *flapParams) Check() (field, remedy string, err error) {
	if p.To < 0 {
		return "to", "write 0 or more", fmt.Errorf("a limit of %d", p.To)
	}
	return positive("every", p.Every)
}

func init() {
	define(Fault{
		Name: "quota-flap", Targets: []scenario.Class{scenario.OnNode},
		Doc: "The backend lowers a node's limit and raises it again, over and over. Healing leaves it where it was.",
	}, flapParams{Every: history.Duration(6 * time.Second)}, func(ctx context.Context, t Target, _ *rand.Rand, p *flapParams) (Heal, error) {
		state, err := t.Quota.State(ctx)
		if err != nil {
			return nil, err
		}
		node := t.Node()
		from := state.Nodes[node].Quota.Limit
		if p.To >= from {
			return nil, fmt.Errorf("node %q: a limit of %d is not below the present %d", node, p.To, from)
		}
		set := func(limit int64) func(context.Context) error {
			return func(ctx context.Context) error { return t.Quota.SetLimit(ctx, node, limit) }
		}
		return toggle(ctx, time.Duration(p.Every), set(p.To), set(from))
	})
}
