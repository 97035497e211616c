package personas

import (
	"context"
	"errors"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
	"headroom/fixtures/quota"
)

func init() {
	register(Persona{
		Name: "no-attach-check",
		Doc:  "trusts the count and answers OK to an attach that the backend refuses because the node is full",
		Root: "attach-rechecked",
		Try:  []string{"stale-count-race"},
		// An attach has to be refused, and is where the count says that there is room.
		Chaos: Chaos{Faults: []string{"quota-drop", "csi-garbage"}},
		MayAlso: []string{
			"class-is-honest", "limit-enforced", "no-leaked-attachment", "stale-count-race",
		},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Backend: func(b steady.Backend) steady.Backend { return trusting{b} }}
		},
	})
}

// trusting takes a full node for an attached volume.
type trusting struct{ steady.Backend }

func (t trusting) Attach(ctx context.Context, node, volume string, readOnly bool, secret string) (history.Quota, error) {
	q, err := t.Backend.Attach(ctx, node, volume, readOnly, secret)
	var refusal *quota.Error
	if errors.As(err, &refusal) && refusal.Reason == history.ReasonFull {
		return q, nil
	}
	return q, err
}
