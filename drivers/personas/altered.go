package personas

import (
	"context"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
)

// altered is a backend whose answers to queries a persona reads wrongly.
type altered struct {
	steady.Backend
	read func(history.Quota) history.Quota
}

func (a altered) Get(ctx context.Context, node string) (history.Quota, error) {
	q, err := a.Backend.Get(ctx, node)
	if err != nil {
		return q, err
	}
	return a.read(q), nil
}

// reading is the hook for it.
func reading(read func(history.Quota) history.Quota) func(steady.Backend) steady.Backend {
	return func(b steady.Backend) steady.Backend { return altered{b, read} }
}
