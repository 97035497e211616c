package personas

import (
	"context"
	"fmt"
	"sync/atomic"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
)

func init() {
	register(Persona{
		Name: "double-publish",
		Doc:  "makes up a new idempotency token for every attach, so that a repeated ControllerPublishVolume takes a second slot",
		Root: "publish-idempotent",
		Try:  []string{"publish-repeated"},
		// A publish is repeated where the answer to the first one is lost.
		Chaos: Chaos{Faults: []string{"network-half:answers"}},
		// With the slots gone, attaches that would fit are refused.
		MayAlso: []string{"publish-repeated"},
		Mistakes: func() steady.Mistakes {
			var calls atomic.Int64
			return steady.Mistakes{Backend: func(b steady.Backend) steady.Backend { return tokens{b, &calls} }}
		},
	})
}

// tokenBackend is a backend that takes idempotency tokens, as quota.Client does.
type tokenBackend interface {
	AttachToken(ctx context.Context, node, volume string, readOnly bool, secret, token string) (history.Quota, error)
}

// tokens attaches with a token of each call's own, where the backend takes one.
type tokens struct {
	steady.Backend
	calls *atomic.Int64
}

func (t tokens) Attach(ctx context.Context, node, volume string, readOnly bool, secret string) (history.Quota, error) {
	b, ok := t.Backend.(tokenBackend)
	if !ok {
		return t.Backend.Attach(ctx, node, volume, readOnly, secret)
	}
	return b.AttachToken(ctx, node, volume, readOnly, secret, fmt.Sprint("call-", t.calls.Add(1)))
}
