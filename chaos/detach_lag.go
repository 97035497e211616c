package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	"headroom/drivers/gate"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// lagParams say how long a detach takes.
type lagParams struct {
	// By is how long. The attacher gives up after 15 s and tries again: with more, no detach comes to an end before the fault is healed.
	By history.Duration `yaml:"by,omitempty"`
}

// Check implements scenario.Checked.
func (p *lagParams) Check() (field, remedy string, err error) { return positive("by", p.By) }

func init() {
	define(Fault{
		Name: "detach-lag", Targets: []scenario.Class{scenario.NodeDriver, scenario.DriverController}, Supports: needsGate,
		Doc: "Detaching takes its time: each ControllerUnpublishVolume waits before it reaches the driver. Healing lets go of those that wait.",
	}, lagParams{By: history.Duration(time.Minute)}, func(ctx context.Context, t Target, _ *rand.Rand, p *lagParams) (Heal, error) {
		return addRule(ctx, t, gate.Rule{Method: "ControllerUnpublishVolume", Delay: time.Duration(p.By)})
	})
}
