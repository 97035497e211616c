package personas

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name:  "fails-registration-on-outage",
		Doc:   "fails NodeGetInfo while the backend does not answer; at registration, the kubelet then removes the entry, which means no limit",
		Root:  "never-unbounded",
		Try:   []string{"registration-in-outage"},
		Chaos: Chaos{Faults: []string{"quota-outage:refuse", "driver"}},
		// The driver is not registered until the backend is back, so its pods cannot start there.
		MayAlso: []string{"registration-in-outage", "kubelet-restart-keeps", "recovers-after-heal"},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{
				NodeInfo: func(_ context.Context, right *csi.NodeGetInfoResponse, failing bool) (*csi.NodeGetInfoResponse, error) {
					if failing {
						return nil, status.Error(codes.Unavailable, "the quota is not known now")
					}
					return right, nil
				},
			}
		},
	})
}
