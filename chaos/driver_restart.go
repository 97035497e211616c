package chaos

import (
	"context"
	"math/rand/v2"

	"headroom/e2e/framework/scenario"
)

// driverRestartParams say how a driver's process comes back.
type driverRestartParams struct {
	// Kill ends it without a farewell.
	Kill bool `yaml:"kill,omitempty"`
	// Register registers it anew, as a pod does whose registrar starts with it. The kubelet removes its entry in between.
	Register bool `yaml:"register,omitempty"`
}

func init() {
	define(Fault{
		Name: "driver-restart", Targets: []scenario.Class{scenario.NodeDriver}, Supports: needsRegistry,
		Doc: "A node's driver ends and starts again, and may register anew. It is over when the injection returns.",
	}, driverRestartParams{}, func(ctx context.Context, t Target, r *rand.Rand, p *driverRestartParams) (Heal, error) {
		heal, err := restart(ctx, t, r, &restartParams{Kill: p.Kill})
		if err == nil && p.Register {
			err = t.Cluster.(registry).Register(ctx, t.Node(), t.Driver, false)
		}
		return heal, err
	})
}
