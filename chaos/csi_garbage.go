package chaos

import (
	"context"
	"math/rand/v2"

	"headroom/drivers/gate"
	"headroom/e2e/framework/scenario"
)

// garbageParams say what is answered.
type garbageParams struct {
	// MaxVolumes replaces max_volumes_per_node: 0 and less mean unlimited, above 2147483647 is cut off by the kubelet.
	MaxVolumes int64 `yaml:"maxVolumes"`
	Times      int   `yaml:"times,omitempty"`
}

func init() {
	define(Fault{
		Name: "csi-garbage", Targets: []scenario.Class{scenario.NodeDriver}, Supports: needsGate,
		Doc: "NodeGetInfo answers a count that is not the driver's: the answer is changed on its way to the kubelet.",
	}, garbageParams{MaxVolumes: -1}, func(ctx context.Context, t Target, _ *rand.Rand, p *garbageParams) (Heal, error) {
		return addRule(ctx, t, gate.Rule{Method: "NodeGetInfo", Times: p.Times, MaxVolumes: &p.MaxVolumes})
	})
}
