package personas

import (
	"context"
	"sync/atomic"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
)

func init() {
	register(Persona{
		Name:  "negative",
		Doc:   "passes a negative limit of the backend on as its answer, which means no limit",
		Root:  "never-unbounded",
		Try:   []string{"quota-nonsense"},
		Chaos: Chaos{Faults: []string{"quota-outage:negative"}},
		MayAlso: []string{
			"answer-within-quota", "write-budget", "growth-requeues", "no-flush-needed", "recovers-after-heal", "quota-nonsense",
		},
		Mistakes: func() steady.Mistakes {
			var limit atomic.Int64
			return steady.Mistakes{
				Backend: reading(func(q history.Quota) history.Quota {
					limit.Store(q.Limit)
					return q
				}),
				NodeInfo: func(_ context.Context, right *csi.NodeGetInfoResponse, _ bool) (*csi.NodeGetInfoResponse, error) {
					if n := limit.Load(); n < 0 {
						right.MaxVolumesPerNode = n
					}
					return right, nil
				},
			}
		},
	})
}
