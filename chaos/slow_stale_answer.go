package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	"headroom/drivers/gate"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// staleAnswerParams say how late an answer arrives.
type staleAnswerParams struct {
	// Hold is how long the answer is held back; the kubelet gives up after 2 m.
	Hold history.Duration `yaml:"hold"`
	// Times is how many answers.
	Times int `yaml:"times,omitempty"`
}

// Check implements scenario.Checked.
func (p *staleAnswerParams) Check() (field, remedy string, err error) {
	return positive("hold", p.Hold)
}

func init() {
	define(Fault{
		Name: "slow-stale-answer", Targets: []scenario.Class{scenario.NodeDriver}, Supports: needsGate,
		Doc: "The next answer of NodeGetInfo is true when the driver gives it, and old when it arrives: it is held back on its way. Healing lets it go.",
	}, staleAnswerParams{Times: 1}, func(ctx context.Context, t Target, _ *rand.Rand, p *staleAnswerParams) (Heal, error) {
		return addRule(ctx, t, gate.Rule{Method: "NodeGetInfo", Times: p.Times, Hold: time.Duration(p.Hold)})
	})
}
