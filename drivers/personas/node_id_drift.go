package personas

import (
	"context"
	"sync/atomic"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name: "node-id-drift",
		Doc:  "gives another node id after its first answer; the API server refuses the update and the count freezes",
		Root: "node-id-stable",
		Try:  []string{"count-drop"},
		// By the new id no node is known, neither to the attacher nor to the backend.
		MayAlso: []string{
			"asks-every-period", "write-budget", "recovers-after-heal", "count-drop",
		},
		Mistakes: func() steady.Mistakes {
			var asked atomic.Bool
			return steady.Mistakes{
				NodeInfo: func(_ context.Context, right *csi.NodeGetInfoResponse, _ bool) (*csi.NodeGetInfoResponse, error) {
					if asked.Swap(true) {
						right.NodeId += "-moved"
					}
					return right, nil
				},
			}
		},
	})
}
