package personas

import (
	"headroom/drivers/steady"
	"headroom/drivers/steady/policy"
)

func init() {
	register(Persona{
		Name: "jump-recovery",
		Doc:  "reports the whole quota at once when it is back, and declares steps",
		Root: "gradual-recovery",
		Try:  []string{"recovery-steps"},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Figures: func(c policy.Config) policy.Config {
				c.Step = 0
				return c
			}}
		},
	})
}
