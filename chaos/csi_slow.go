package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"headroom/drivers/gate"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// callParams say which calls a rule of the gate meets.
type callParams struct {
	// Method is a CSI method such as NodeGetInfo; all when left out.
	Method string `yaml:"method,omitempty"`
	// Times is how many calls; every one until it is healed when left out.
	Times int `yaml:"times,omitempty"`
}

func (p callParams) rule() gate.Rule { return gate.Rule{Method: p.Method, Times: p.Times} }

// slowParams say how late calls are.
type slowParams struct {
	Method string           `yaml:"method,omitempty"`
	Times  int              `yaml:"times,omitempty"`
	By     history.Duration `yaml:"by"`
}

// Check implements scenario.Checked.
func (p *slowParams) Check() (field, remedy string, err error) { return positive("by", p.By) }

// positive checks a duration that must be given.
func positive(field string, d history.Duration) (wrong, remedy string, err error) {
	if d <= 0 {
		return field, "write a number with a unit, such as 10s", errors.New("want a duration above 0")
	}
	return "", "", nil
}

func init() {
	define(Fault{
		Name: "csi-slow", Targets: []scenario.Class{scenario.NodeDriver, scenario.DriverController}, Supports: needsGate,
		Doc: "Calls wait before they reach the driver. Healing lets go of those that wait.",
	}, slowParams{}, func(ctx context.Context, t Target, _ *rand.Rand, p *slowParams) (Heal, error) {
		rule := callParams{p.Method, p.Times}.rule()
		rule.Delay = time.Duration(p.By)
		return addRule(ctx, t, rule)
	})
}
