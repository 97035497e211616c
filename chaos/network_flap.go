package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	"headroom/e2e/framework/history"
)

// networkFlapParams say how often a connection fails.
type networkFlapParams struct {
	// Every is how long the way is cut, and then there.
	Every history.Duration `yaml:"every,omitempty"`
}

// Check implements scenario.Checked.
func (p *networkFlapParams) Check() (field, remedy string, err error) {
	return positive("every", p.Every)
}

func init() {
	define(Fault{
		Name: "network-flap", Supports: needsNetwork, Targets: networked,
		Doc: "One component loses its connections to the API server and gets them back, over and over. Healing restores the way.",
	}, networkFlapParams{Every: history.Duration(3 * time.Second)}, func(ctx context.Context, t Target, _ *rand.Rand, p *networkFlapParams) (Heal, error) {
		component, err := t.Component(ctx)
		if err != nil {
			return nil, err
		}
		c := t.Cluster.(network)
		set := func(mode string) func(context.Context) error {
			return func(ctx context.Context) error { return c.SetEndpoint(ctx, component.ID(), mode) }
		}
		return toggle(ctx, time.Duration(p.Every), set("refuse"), set("pass"))
	})
}
