package invariants

import (
	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var detachRequeues = Invariant{
	Name: "detach-requeues",
	Claim: "a pod that waits for volume limits is bound within 15 s + slack after the end of a VolumeAttachment made room for it, " +
		"unless the room is taken again meanwhile or something else keeps the pod",
	Source:   "pkg/scheduler/framework/plugins/nodevolumelimits/csi.go isSchedulableAfterVolumeAttachmentDeleted; pods back off for 10 s at most",
	Boundary: history.Scheduler,
	Needs:    placementNeeds,
	KnownUpstream: []Known{{
		Versions: ">=1.33 <1.38",
		Source:   "nodevolumelimits/csi.go isSchedulableAfterVolumeAttachmentDeleted looks at claims of the pod only, not at generic ephemeral volumes",
		Scenario: ephemeralScenario, Signed: true,
	}},
	New: func(p Params) Checker { return newChecker(p, &requeues{by: model.ByAttachment, t: tally{}}) },
}
