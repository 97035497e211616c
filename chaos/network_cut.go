package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"headroom/e2e/framework/scenario"
)

// cutParams say how a connection fails.
type cutParams struct {
	// Mode is refuse (connections are reset), hang (nothing goes through, and nobody is told) or impostor (open connections are reset, and something that
	// is no API server answers new ones, so that client-go lists anew afterwards; where they are only reset, it goes on watching where it was).
	Mode string `yaml:"mode,omitempty"`
}

// Check implements scenario.Checked.
func (p *cutParams) Check() (field, remedy string, err error) {
	if !slices.Contains(cutModes, p.Mode) {
		return "mode", fmt.Sprintf("write one of %q", cutModes), fmt.Errorf("no mode %q", p.Mode)
	}
	return "", "", nil
}

var cutModes = []string{"refuse", "hang", "impostor"}

// networked are the components with a way to the API server of their own.
var networked = []scenario.Class{scenario.Kubelet, scenario.Attacher, scenario.Scheduler, scenario.ControllerManager}

func init() {
	define(Fault{
		Name: "network-cut", Supports: needsNetwork, Targets: networked,
		Doc: "One component cannot reach the API server; all others can. Connections are reset, hang, or meet something that is no API server. Healing restores the way.",
	}, cutParams{Mode: "refuse"}, func(ctx context.Context, t Target, _ *rand.Rand, p *cutParams) (Heal, error) {
		return setEndpoint(ctx, t, p.Mode)
	})
}

// setEndpoint changes what the target's way to the API server does, and heals by letting everything through.
func setEndpoint(ctx context.Context, t Target, mode string) (Heal, error) {
	component, err := t.Component(ctx)
	if err != nil {
		return nil, err
	}
	c := t.Cluster.(network) // Supports saw it
	if err := c.SetEndpoint(ctx, component.ID(), mode); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return c.SetEndpoint(ctx, component.ID(), "pass") }, nil
}
