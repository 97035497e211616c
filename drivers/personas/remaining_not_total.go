package personas

import (
	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
)

func init() {
	register(Persona{
		Name: "remaining-not-total",
		Doc:  "reports what is left instead of the total, so that the scheduler subtracts what is attached a second time",
		Root: "total-not-remaining",
		Try:  []string{"driver-restart"},
		MayAlso: []string{
			"quota-to-answer", "no-stale-overwrite", "recovers-after-heal", "driver-restart",
		},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Backend: reading(func(q history.Quota) history.Quota {
				q.Limit -= q.Attached
				return q
			})}
		},
	})
}
