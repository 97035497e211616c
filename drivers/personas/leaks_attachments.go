package personas

import (
	"context"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name: "leaks-attachments",
		Doc:  "answers every ControllerUnpublishVolume with OK and detaches nothing, so that each volume keeps its slot for ever",
		Root: "no-leaked-attachment",
		Try:  []string{"detach-frees-room"},
		// With the slots gone, attaches that would fit are refused.
		MayAlso: []string{"detach-frees-room"},
		Chaos:   Chaos{Faults: []string{"quota-drop", "quota-raise"}}, // an outage excuses what stays attached
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Backend: func(b steady.Backend) steady.Backend { return keeps{b} }}
		},
	})
}

// keeps forgets to detach.
type keeps struct{ steady.Backend }

func (keeps) Detach(context.Context, string, string) error { return nil }
