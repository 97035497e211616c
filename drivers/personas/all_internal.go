package personas

import (
	"google.golang.org/grpc/codes"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name: "all-internal",
		Doc:  "fails every ControllerPublishVolume with INTERNAL, whatever the cause",
		Root: "class-is-honest",
		Try:  []string{"stale-count-race"},
		// An attach has to be refused, and is where the count says that there is room.
		Chaos: Chaos{Faults: []string{"quota-drop", "csi-garbage"}},
		// Without code 8 the kubelet never rejects a pod from a full node, so a pod that would fit elsewhere is not made anew there.
		// reactive-converges is not here: it speaks of pods that wait on code 8, and there are none.
		MayAlso: []string{"recovers-after-heal", "stale-count-race", "limit-enforced", "attach-classes", "reactive-refresh"},
		Mistakes: func() steady.Mistakes {
			return steady.Mistakes{Code: func(error, codes.Code) codes.Code { return codes.Internal }}
		},
	})
}
