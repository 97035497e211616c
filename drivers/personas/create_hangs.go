package personas

import (
	"context"

	"google.golang.org/grpc/status"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name: "create-hangs",
		Doc:  "answers no CreateVolume until its caller gives up",
		Root: "volume-made",
		Try:  []string{"statefulset-restart"},
		// Without a volume no pod runs.
		MayAlso: []string{"statefulset-restart"},
		Dynamic: true,
		Chaos:   Chaos{Never: "the volumes of plans are there from the beginning"},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Create: func(ctx context.Context, _ func() error) error {
				<-ctx.Done()
				return status.FromContextError(ctx.Err()).Err()
			}}
		},
	})
}
