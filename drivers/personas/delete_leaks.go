package personas

import (
	"context"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name:    "delete-leaks",
		Doc:     "answers OK to DeleteVolume and keeps the volume",
		Root:    "volume-deleted",
		Try:     []string{"statefulset-restart"},
		Dynamic: true,
		Chaos:   Chaos{Never: "the volumes of plans are there from the beginning"},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Delete: func(context.Context, func() error) error { return nil }}
		},
	})
}
