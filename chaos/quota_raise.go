package chaos

import (
	"context"
	"math/rand/v2"

	"headroom/e2e/framework/scenario"
)

// mostRaise bounds a random raise.
const mostRaise = 8

func init() {
	define(Fault{
		Name: "quota-raise", Targets: []scenario.Class{scenario.OnNode},
		Doc: "The backend raises a node's limit. Healing lowers it to where it was; what was attached meanwhile stays.",
	}, moveParams{}, func(ctx context.Context, t Target, r *rand.Rand, p *moveParams) (Heal, error) {
		raised := func(limit int64) (int64, error) { return limit + 1 + r.Int64N(mostRaise), nil }
		heal, _, err := moveLimit(ctx, t, p, raised, func(from, to int64) bool { return to > from })
		return heal, err
	})
}
