package personas

import (
	"context"
	"sync"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
)

func init() {
	register(Persona{
		Name: "never-refreshes",
		Doc:  "asks for the quota once and reports that for as long as it runs",
		Root: "quota-to-answer",
		Try:  []string{"count-raise"},
		MayAlso: []string{
			"answer-within-quota", "recovers-after-heal", "count-raise",
		},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Backend: func(b steady.Backend) steady.Backend { return &first{Backend: b} }}
		},
	})
}

// first asks until it has an answer, and then no more.
type first struct {
	steady.Backend
	mu    sync.Mutex
	known *history.Quota
}

func (f *first) Get(ctx context.Context, node string) (history.Quota, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		q, err := f.Backend.Get(ctx, node)
		if err != nil {
			return q, err
		}
		f.known = &q
	}
	return *f.known, nil
}
