package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/fixtures/quota"
)

// outageParams say how the backend fails.
type outageParams struct {
	// Mode is one of quota.Modes.
	Mode quota.Mode `yaml:"mode,omitempty"`
	// Operations are those that fail; all when left out.
	Operations []quota.Operation `yaml:"operations,omitempty"`
	// Delay is what mode slow waits before it answers.
	Delay history.Duration `yaml:"delay,omitempty"`
}

// Check implements scenario.Checked.
func (p *outageParams) Check() (field, remedy string, err error) {
	if !slices.Contains(quota.Modes, p.Mode) {
		return "mode", fmt.Sprintf("write one of %q", quota.Modes), fmt.Errorf("no mode %q", p.Mode)
	}
	if (p.Mode == quota.Slow) != (p.Delay > 0) {
		return "delay", "give mode slow one such as 3s, and other modes none", fmt.Errorf("mode %q with a delay of %s", p.Mode, p.Delay)
	}
	for _, op := range p.Operations {
		if !slices.Contains(quota.Operations, op) {
			return "operations", fmt.Sprintf("write some of %q", quota.Operations), fmt.Errorf("no operation %q", op)
		}
	}
	return "", "", nil
}

func init() {
	define(Fault{
		Name: "quota-outage", Targets: []scenario.Class{scenario.Backend, scenario.OnNode},
		Doc: "The backend does not answer as it should, for a node or for all: it resets connections, hangs, answers late or errors, forbids, or talks nonsense.",
	}, outageParams{Mode: quota.Refuse}, func(ctx context.Context, t Target, _ *rand.Rand, p *outageParams) (Heal, error) {
		return outage(ctx, t, quota.Fault{Mode: p.Mode, Operations: p.Operations, Delay: p.Delay})
	})
}

// outage makes the backend fail for the target's nodes.
func outage(ctx context.Context, t Target, f quota.Fault) (Heal, error) {
	f.Nodes = t.Affected()
	if err := t.Quota.Inject(ctx, f); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return t.Quota.Heal(ctx, f.Nodes...) }, nil
}
