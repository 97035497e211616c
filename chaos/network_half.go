package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"headroom/e2e/framework/scenario"
	"headroom/fixtures/quota"
)

// halfParams say which half of a connection is lost.
type halfParams struct {
	// Lost is answers (what is asked for is done, and the component is not told) or requests (nothing is done, and what the other side says by itself
	// goes on arriving, watch events among it).
	Lost string `yaml:"lost,omitempty"`
}

// Directions of halfParams.
const (
	lostAnswers  = "answers"
	lostRequests = "requests"
)

// Check implements scenario.Checked.
func (p *halfParams) Check() (field, remedy string, err error) {
	if lost := []string{lostAnswers, lostRequests}; !slices.Contains(lost, p.Lost) {
		return "lost", fmt.Sprintf("write one of %q", lost), fmt.Errorf("no direction %q", p.Lost)
	}
	return "", "", nil
}

func init() {
	define(Fault{
		Name: "network-half", Supports: needsNetwork, Targets: append(slices.Clone(networked), scenario.Backend, scenario.OnNode),
		Doc: "One direction of a connection is lost, between one component and the API server, or between drivers and the backend (all drivers, or a node's): " +
			"either the answers, to what is done all the same, or the requests. Healing lets go of what was held, in order.",
	}, halfParams{Lost: lostAnswers}, func(ctx context.Context, t Target, _ *rand.Rand, p *halfParams) (Heal, error) {
		if t.Class == scenario.Backend || t.Class == scenario.OnNode {
			mode := map[string]quota.Mode{lostAnswers: quota.NoAnswer, lostRequests: quota.Hang}[p.Lost]
			return outage(ctx, t, quota.Fault{Mode: mode})
		}
		return setEndpoint(ctx, t, map[string]string{lostAnswers: "no-answer", lostRequests: "no-request"}[p.Lost])
	})
}
