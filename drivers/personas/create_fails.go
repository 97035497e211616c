package personas

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name: "create-fails",
		Doc:  "fails every CreateVolume with INTERNAL",
		Root: "volume-made",
		Try:  []string{"statefulset-restart"},
		// Without a volume no pod runs.
		MayAlso: []string{"statefulset-restart"},
		Dynamic: true,
		Chaos:   Chaos{Never: "the volumes of plans are there from the beginning"},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Create: func(context.Context, func() error) error {
				return status.Error(codes.Internal, "the storage array did not answer")
			}}
		},
	})
}
