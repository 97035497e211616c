package personas

import (
	"context"
	"sync"
	"time"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
)

// staleFor is how old the persona's cache may be: far more than any driver's declared cache age in the suite.
const staleFor = time.Minute

func init() {
	register(Persona{
		Name: "stale-cache",
		Doc:  "reports a quota from a cache that is a minute old, and declares 2 seconds",
		Root: "answer-within-quota",
		Try:  []string{"count-drop"},
		MayAlso: []string{
			"quota-to-answer", "recovers-after-heal", "count-drop",
		},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Backend: func(b steady.Backend) steady.Backend { return &cached{Backend: b, now: time.Now} }}
		},
	})
}

// cached asks again only when what it knows is too old for it.
type cached struct {
	steady.Backend
	now   func() time.Time
	mu    sync.Mutex
	known history.Quota
	since time.Time
}

func (c *cached) Get(ctx context.Context, node string) (history.Quota, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.since.IsZero() || now.Sub(c.since) >= staleFor {
		q, err := c.Backend.Get(ctx, node)
		if err != nil {
			return q, err
		}
		c.known, c.since = q, now
	}
	return c.known, nil
}
