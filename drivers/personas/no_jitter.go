package personas

import (
	"time"

	"headroom/drivers/steady"
	"headroom/drivers/steady/policy"
)

func init() {
	register(Persona{
		Name: "no-jitter",
		Doc:  "asks the backend at the moment when the kubelet asks, which all kubelets can do at once",
		Root: "phases-spread",
		Try:  []string{"aligned-periods"},
		// phases-spread wants 16 nodes over 20 periods; the kubelets are aligned by the end of the flip.
		Chaos: Chaos{Faults: []string{"period-flip"}, Nodes: 18, Quiet: 4 * time.Minute},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Figures: func(c policy.Config) policy.Config {
				c.OnDemand = true
				return c
			}}
		},
	})
}
