package personas

import (
	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
)

func init() {
	register(Persona{
		Name: "ignores-foreign",
		Doc:  "reports the limit without what is attached outside Kubernetes",
		Root: "answer-within-quota",
		Try:  []string{"foreign-attachments"},
		MayAlso: []string{
			"quota-to-answer", "recovers-after-heal", "foreign-attachments",
		},
		Chaos: Chaos{Faults: []string{"foreign-attachment"}},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Backend: reading(func(q history.Quota) history.Quota {
				q.Foreign = 0
				return q
			})}
		},
	})
}
