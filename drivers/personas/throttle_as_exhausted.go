package personas

import (
	"errors"

	"google.golang.org/grpc/codes"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
	"headroom/fixtures/quota"
)

func init() {
	register(Persona{
		Name:  "throttle-as-exhausted",
		Doc:   "fails ControllerPublishVolume with RESOURCE_EXHAUSTED when the backend throttles, so that a pod with room on its node is rejected",
		Root:  "class-is-honest",
		Try:   []string{"throttled"},
		Chaos: Chaos{Faults: []string{"quota-outage:throttle"}},
		MayAlso: []string{
			"only-capacity-refreshes", "recovers-after-heal", "throttled",
		},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Code: func(cause error, right codes.Code) codes.Code {
				var refusal *quota.Error
				if errors.As(cause, &refusal) && refusal.Reason == history.ReasonThrottled {
					return codes.ResourceExhausted
				}
				return right
			}}
		},
	})
}
