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
		Name:  "zero-on-any-error",
		Doc:   "answers 0 after any query that failed since the answer before, a single throttled one included",
		Root:  "never-unbounded",
		Try:   []string{"throttled"},
		Chaos: Chaos{Faults: []string{"quota-outage:refuse", "driver"}},
		MayAlso: []string{
			"answer-within-quota", "quota-to-answer", "growth-requeues", "no-flush-needed", "throttled",
		},
		Mistakes: func() steady.Mistakes {
			var failed atomic.Bool
			return steady.Mistakes{
				Backend: func(b steady.Backend) steady.Backend { return noting{b, &failed} },
				NodeInfo: func(_ context.Context, right *csi.NodeGetInfoResponse, _ bool) (*csi.NodeGetInfoResponse, error) {
					if failed.Swap(false) {
						right.MaxVolumesPerNode = 0
					}
					return right, nil
				},
			}
		},
	})
}

// noting remembers that a query failed.
type noting struct {
	steady.Backend
	failed *atomic.Bool
}

func (n noting) Get(ctx context.Context, node string) (history.Quota, error) {
	q, err := n.Backend.Get(ctx, node)
	if err != nil {
		n.failed.Store(true)
	}
	return q, err
}
