package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	"headroom/e2e/framework/history"
)

// latencyParams say how slow the network is.
type latencyParams struct {
	// By is what everything takes longer in each direction, so that an answer comes twice that later.
	By history.Duration `yaml:"by"`
}

// Check implements scenario.Checked.
func (p *latencyParams) Check() (field, remedy string, err error) { return positive("by", p.By) }

func init() {
	define(Fault{
		Name: "network-latency", Supports: needsNetwork, Targets: networked,
		Doc: "Everything between one component and the API server takes longer, in each direction; no other component is slower. Healing lets go of what is on its way.",
	}, latencyParams{}, func(ctx context.Context, t Target, _ *rand.Rand, p *latencyParams) (Heal, error) {
		component, err := t.Component(ctx)
		if err != nil {
			return nil, err
		}
		c := t.Cluster.(network)
		if err := c.SetLatency(ctx, component.ID(), time.Duration(p.By)); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return c.SetLatency(ctx, component.ID(), 0) }, nil
	})
}
