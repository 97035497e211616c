package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"headroom/e2e/framework/scenario"
)

// moveParams say where a limit goes.
type moveParams struct {
	// To is the new limit; chosen at random when left out.
	To *int64 `yaml:"to,omitempty"`
}

// Check implements scenario.Checked.
func (p *moveParams) Check() (field, remedy string, err error) {
	if p.To != nil && *p.To < 0 {
		return "to", "write 0 or more", fmt.Errorf("a limit of %d", *p.To)
	}
	return "", "", nil
}

func init() {
	define(Fault{
		Name: "quota-drop", Targets: []scenario.Class{scenario.OnNode},
		Doc: "The backend lowers a node's limit, below what is attached if need be; nothing is detached. Healing raises it to where it was.",
	}, moveParams{}, func(ctx context.Context, t Target, r *rand.Rand, p *moveParams) (Heal, error) {
		heal, _, err := drop(ctx, t, r, p)
		return heal, err
	})
}

// drop lowers a limit, and says to what.
func drop(ctx context.Context, t Target, r *rand.Rand, p *moveParams) (raise Heal, to int64, err error) {
	return moveLimit(ctx, t, p, func(limit int64) (int64, error) {
		if limit < 1 {
			return 0, errors.New("the limit is 0 already, so it cannot drop")
		}
		return r.Int64N(limit), nil
	}, func(from, to int64) bool { return to < from })
}

// moveLimit sets a limit, chosen by the parameters or at random, that lies in the right direction from the present one.
func moveLimit(
	ctx context.Context, t Target, p *moveParams, choose func(int64) (int64, error), right func(from, to int64) bool,
) (back Heal, to int64, err error) {
	state, err := t.Quota.State(ctx)
	if err != nil {
		return nil, 0, err
	}
	node := t.Node()
	from := state.Nodes[node].Quota.Limit
	if p.To != nil {
		to = *p.To
	} else if to, err = choose(from); err != nil {
		return nil, 0, err
	}
	if !right(from, to) {
		return nil, 0, fmt.Errorf("node %q: a limit of %d is on the wrong side of the present %d", node, to, from)
	}
	if err := t.Quota.SetLimit(ctx, node, to); err != nil {
		return nil, 0, err
	}
	return func(ctx context.Context) error { return t.Quota.SetLimit(ctx, node, from) }, to, nil
}
