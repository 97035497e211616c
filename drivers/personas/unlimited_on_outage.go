package personas

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name:  "unlimited-on-outage",
		Doc:   "answers 0 while the backend does not answer, as if that meant no volumes; to Kubernetes it means no limit",
		Root:  "never-unbounded",
		Try:   []string{"quota-outage-refuse"},
		Chaos: Chaos{Faults: []string{"quota-outage:refuse", "driver"}},
		// The scheduler is not woken when a finite count becomes unlimited, so pods that wait stay waiting until the flush.
		MayAlso: []string{
			"answer-within-quota", "gradual-recovery", "growth-requeues", "no-flush-needed",
			"quota-outage-refuse", "quota-outage-hang", "quota-outage-garbage", "quota-nonsense", "registration-in-outage", "throttled",
		},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{
				NodeInfo: func(_ context.Context, right *csi.NodeGetInfoResponse, failing bool) (*csi.NodeGetInfoResponse, error) {
					if failing {
						right.MaxVolumesPerNode = 0
					}
					return right, nil
				},
			}
		},
	})
}
