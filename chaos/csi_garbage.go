package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"headroom/drivers/gate"
	"headroom/e2e/framework/scenario"
)

// Values of garbageParams.
const (
	garbageOther = "other"
	garbageEmpty = "empty"
)

// garbageParams say what is answered; what is left out stays as the driver gave it.
type garbageParams struct {
	// MaxVolumes replaces max_volumes_per_node: 0 and less mean unlimited, above 2147483647 is cut off by the kubelet.
	MaxVolumes *int64 `yaml:"maxVolumes,omitempty"`
	// NodeID replaces node_id: by that of another node, or by an empty one.
	NodeID string `yaml:"nodeID,omitempty"`
	// Topology replaces accessible_topology: by a segment with another key.
	Topology string `yaml:"topology,omitempty"`
	Times    int    `yaml:"times,omitempty"`
}

// Check implements scenario.Checked.
func (p *garbageParams) Check() (field, remedy string, err error) {
	switch {
	case p.NodeID != "" && p.NodeID != garbageOther && p.NodeID != garbageEmpty:
		return "nodeID", "write " + garbageOther + " or " + garbageEmpty, fmt.Errorf("no nodeID %q", p.NodeID)
	case p.Topology != "" && p.Topology != garbageOther:
		return "topology", "write " + garbageOther, fmt.Errorf("no topology %q", p.Topology)
	case p.MaxVolumes == nil && p.NodeID == "" && p.Topology == "":
		return "", "give maxVolumes, nodeID or topology", errors.New("the answer is not changed")
	}
	return "", "", nil
}

func init() {
	define(Fault{
		Name: "csi-garbage", Targets: []scenario.Class{scenario.NodeDriver}, Supports: needsGate,
		Doc: "NodeGetInfo answers a count, a node id or a topology that is not the driver's: the answer is changed on its way to the kubelet.",
	}, garbageParams{}, func(ctx context.Context, t Target, _ *rand.Rand, p *garbageParams) (Heal, error) {
		rule := gate.Rule{Method: "NodeGetInfo", Times: p.Times, MaxVolumes: p.MaxVolumes}
		switch p.NodeID {
		case garbageOther:
			id := "other-than-" + t.Node()
			rule.NodeID = &id
		case garbageEmpty:
			rule.NodeID = new(string)
		}
		if p.Topology == garbageOther {
			rule.TopologyKey = "headroom.test/elsewhere"
		}
		return addRule(ctx, t, rule)
	})
}
