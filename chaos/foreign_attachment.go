package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"

	"headroom/e2e/framework/scenario"
)

// foreignParams say how many slots are taken.
type foreignParams struct {
	Count int64 `yaml:"count,omitempty"`
}

// Check implements scenario.Checked.
func (p *foreignParams) Check() (field, remedy string, err error) {
	if p.Count < 1 {
		return "count", "write 1 or more", fmt.Errorf("%d attachments", p.Count)
	}
	return "", "", nil
}

func init() {
	define(Fault{
		Name: "foreign-attachment", Targets: []scenario.Class{scenario.OnNode},
		Doc: "Something outside Kubernetes attaches volumes to a node. Healing detaches them.",
	}, foreignParams{Count: 1}, func(ctx context.Context, t Target, _ *rand.Rand, p *foreignParams) (Heal, error) {
		state, err := t.Quota.State(ctx)
		if err != nil {
			return nil, err
		}
		node := t.Node()
		before := state.Nodes[node].Quota.Foreign
		if err := t.Quota.SetForeign(ctx, node, before+p.Count); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return t.Quota.SetForeign(ctx, node, before) }, nil
	})
}
