package personas

import (
	"time"

	"headroom/drivers/steady"
	"headroom/drivers/steady/policy"
)

func init() {
	register(Persona{
		Name: "chatty",
		Doc:  "asks the backend about five times as often as it declares",
		Root: "query-budget",
		Try:  []string{"stale-count-race"},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Figures: func(c policy.Config) policy.Config {
				c.MinInterval, c.CacheAge = 200*time.Millisecond, 200*time.Millisecond
				return c
			}}
		},
	})
}
