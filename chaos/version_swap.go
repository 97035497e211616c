package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// swapParams say which version a component goes on with.
type swapParams struct {
	// Minors is how many minor versions up, or down where it is negative; -1 when left out. The table of versions says which there are.
	Minors int `yaml:"minors,omitempty"`
}

// Check implements scenario.Checked.
func (p *swapParams) Check() (field, remedy string, err error) {
	if p.Minors != 1 && p.Minors != -1 {
		return "minors", "write 1 or -1", fmt.Errorf("%d minor versions", p.Minors)
	}
	return "", "", nil
}

func init() {
	define(Fault{
		Name: "version-swap", Supports: needsVersions,
		Targets: []scenario.Class{scenario.Kubelet, scenario.Attacher, scenario.Scheduler, scenario.ControllerManager, scenario.APIServer},
		Doc: "A component goes on one minor version down or up, as in an upgrade that meets another fault, or is rolled back. It is healthy when the injection " +
			"returns. Healing goes back to the version that it had.",
	}, swapParams{Minors: -1}, func(ctx context.Context, t Target, _ *rand.Rand, p *swapParams) (Heal, error) {
		c, err := t.Component(ctx)
		if err != nil {
			return nil, err
		}
		from := c.Version()
		to, err := neighbour(versions.Embedded(), t.Class, from, p.Minors)
		if err != nil {
			return nil, err
		}
		if err := swap(ctx, c, t.Class, to); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return swap(ctx, c, t.Class, from) }, nil
	})
}

// swap ends a process and starts it at another version. An API server gets no time to wait for its watches, which is a minute, in which nodes are lost.
func swap(ctx context.Context, c cluster.Component, class scenario.Class, to versions.Version) error {
	how := cluster.Terminate
	if class == scenario.APIServer {
		how = cluster.Brief
	}
	if err := c.Stop(ctx, how); err != nil {
		return err
	}
	return c.Start(ctx, to)
}

// neighbour is the version of a component's that the table has so many minors away from another.
func neighbour(table versions.Table, class scenario.Class, from versions.Version, minors int) (versions.Version, error) {
	known := table.Known()
	if class == scenario.Attacher {
		known = nil
		for _, a := range table.Attachers {
			known = append(known, a.Version)
		}
	}
	for _, v := range known {
		if v.Major() == from.Major() && v.Minor() == from.Minor()+minors {
			return v, nil
		}
	}
	return "", fmt.Errorf("%s %s: no version is known that is %+d minor from it; known: %v", class, from, minors, known)
}
