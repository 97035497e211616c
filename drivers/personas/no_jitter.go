package personas

import (
	"headroom/drivers/steady"
	"headroom/drivers/steady/policy"
)

func init() {
	register(Persona{
		Name: "no-jitter",
		Doc:  "asks the backend at the moment when the kubelet asks, which all kubelets can do at once",
		Root: "phases-spread",
		Try:  []string{"aligned-periods"},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Figures: func(c policy.Config) policy.Config {
				c.OnDemand = true
				return c
			}}
		},
	})
}
