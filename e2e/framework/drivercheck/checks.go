package drivercheck

import (
	"fmt"
	"slices"
)

// Check is one claim about drivers. Ids that are also names of invariants make the same claim.
type Check struct {
	ID     string
	Claim  string
	Source string
	// Core checks must all hold; of the others nothing is required.
	Core bool
	// Cases are the ways in which it is put to the test, in the order of the report.
	Cases []string
}

// caseID names one case of one check.
type caseID struct{ check, name string }

// known panics on a case that no check has: its outcome would be lost.
func (c caseID) known() {
	i := slices.IndexFunc(checks, func(k Check) bool { return k.ID == c.check })
	if i < 0 || !slices.Contains(checks[i].Cases, c.name) {
		panic(fmt.Sprintf("drivercheck: no case %q of check %q", c.name, c.check))
	}
}

// Cases.
var (
	caseAnswers = caseID{"answers", "every call"}

	caseName         = caseID{"identity", "name"}
	caseProbe        = caseID{"identity", "probe"}
	caseCapabilities = caseID{"identity", "capabilities"}

	caseCount    = caseID{"limit-sane", "count"}
	caseNodeID   = caseID{"limit-sane", "node id"}
	caseTopology = caseID{"limit-sane", "topology"}

	caseSameID        = caseID{"node-id-stable", "asked again"}
	caseSameIDRestart = caseID{"node-id-stable", "restarted"}

	caseSameCount = caseID{"limit-stable", "asked again"}
	caseRestart   = caseID{"limit-stable", "restarted"}

	caseNoVolumeID   = caseID{"arguments-checked", "no volume_id"}
	caseNoNodeID     = caseID{"arguments-checked", "no node_id"}
	caseNoCapability = caseID{"arguments-checked", "no volume_capability"}

	caseFirst = caseID{"attach-up-to-limit", "first volume"}
	caseFill  = caseID{"attach-up-to-limit", "as many as reported"}

	caseTwice    = caseID{"publish-idempotent", "published again"}
	caseWhenFull = caseID{"publish-idempotent", "published again on a full node"}

	caseOver          = caseID{"attach-rechecked", "one more than reported"}
	caseUnseen        = caseID{"attach-rechecked", "limit fell since it was reported"}
	caseAttachOutages = caseID{"attach-rechecked", "quota service gone"}

	caseFull         = caseID{"class-is-honest", "node is full"}
	caseNoVolume     = caseID{"class-is-honest", "no such volume"}
	caseNoNode       = caseID{"class-is-honest", "no such node"}
	caseIncompatible = caseID{"class-is-honest", "published otherwise"}
	caseOutageCode   = caseID{"class-is-honest", "quota service gone"}
	caseThrottled    = caseID{"class-is-honest", "throttled"}

	caseUnpublish       = caseID{"unpublish-safe", "published"}
	caseRoom            = caseID{"unpublish-safe", "its room is free again"}
	caseUnpublishAgain  = caseID{"unpublish-safe", "not published"}
	caseUnpublishVolume = caseID{"unpublish-safe", "no such volume"}
	caseUnpublishNode   = caseID{"unpublish-safe", "no such node"}

	caseTotal = caseID{"total-not-remaining", "volumes attached"}

	caseFall = caseID{"quota-to-answer", "limit falls"}
	caseRise = caseID{"quota-to-answer", "limit rises"}

	caseForeign     = caseID{"answer-within-quota", "foreign attachments"}
	caseOutageCount = caseID{"answer-within-quota", "quota service gone"}

	caseOlder = caseID{"no-stale-overwrite", "asked again after a change"}

	caseOutage        = caseID{"never-unbounded", "quota service gone"}
	caseOutageRestart = caseID{"never-unbounded", "restarted while it is gone"}
	caseGarbage       = caseID{"never-unbounded", "quota service answers nonsense"}
	caseHuge          = caseID{"never-unbounded", "limit of 2^40"}
	caseNegative      = caseID{"never-unbounded", "limit of -1"}

	caseSteps = caseID{"gradual-recovery", "limit rises"}

	caseBudget = caseID{"query-budget", "whole check"}
)

const (
	nodeGetInfo      = "CSI spec v1.12, NodeGetInfo"
	publish          = "CSI spec v1.12, ControllerPublishVolume"
	unpublish        = "CSI spec v1.12, ControllerUnpublishVolume"
	kubeletUnlimited = "kubelet nodeinfomanager.go: a count of 0 or less, or a failed registration, leaves CSINode without a limit"
)

var checks = []Check{
	{ID: "answers", Core: true, Cases: names(caseAnswers),
		Claim: "Every call is answered in time, with a status of the driver's own", Source: "CSI spec v1.12, Error Scheme and Timeouts"},
	{ID: "identity", Core: true, Cases: names(caseName, caseProbe, caseCapabilities),
		Claim: "The driver says who it is, that it is ready and what it can do", Source: "CSI spec v1.12, Identity Service RPC"},
	{ID: "limit-sane", Core: true, Cases: names(caseCount, caseNodeID, caseTopology),
		Claim:  "NodeGetInfo answers a limit that Kubernetes can keep (1 to 2^31-1), a node id of at most 256 bytes, and topology only where declared",
		Source: nodeGetInfo + "; CSINode.spec.drivers[].allocatable.count"},
	{ID: "node-id-stable", Core: true, Cases: names(caseSameID, caseSameIDRestart),
		Claim: "The node id and the topology keys stay the same", Source: "CSINode: only allocatable may change, so the API server refuses any other answer and the count freezes"},
	{ID: "limit-stable", Core: true, Cases: names(caseSameCount, caseRestart),
		Claim: "While nothing changes the limit stays the same, over a restart too", Source: nodeGetInfo},
	{ID: "arguments-checked", Core: true, Cases: names(caseNoVolumeID, caseNoNodeID, caseNoCapability),
		Claim: "An attach without a required field fails with INVALID_ARGUMENT", Source: "CSI spec v1.12, Error Scheme; " + publish},
	{ID: "attach-up-to-limit", Core: true, Cases: names(caseFirst, caseFill),
		Claim: "As many volumes can be attached as the driver reports", Source: nodeGetInfo + ", max_volumes_per_node"},
	{ID: "publish-idempotent", Core: true, Cases: names(caseTwice, caseWhenFull),
		Claim: "Attaching an attached volume again succeeds and takes no room", Source: publish + ", idempotence"},
	{ID: "attach-rechecked", Core: true, Cases: names(caseOver, caseUnseen, caseAttachOutages),
		Claim: "What does not fit is refused at attach, whatever the driver reported", Source: publish + " Errors, Max volumes attached"},
	{ID: "class-is-honest", Core: true, Cases: names(caseFull, caseNoVolume, caseNoNode, caseIncompatible, caseOutageCode, caseThrottled),
		Claim: "A failed attach has the code of its cause, and RESOURCE_EXHAUSTED means a full node and nothing else", Source: publish + " Errors"},
	{ID: "unpublish-safe", Core: true, Cases: names(caseUnpublish, caseRoom, caseUnpublishAgain, caseUnpublishVolume, caseUnpublishNode),
		Claim: "Detaching succeeds, also when there is nothing to detach, and leaks nothing", Source: unpublish},
	{ID: "total-not-remaining", Core: true, Cases: names(caseTotal),
		Claim: "The driver reports what may be attached in all, not what is left of it", Source: nodeGetInfo + "; the scheduler subtracts what is attached itself"},
	{ID: "quota-to-answer", Core: true, Cases: names(caseFall, caseRise),
		Claim: "A change of the limit reaches the answer: a fall within the declared cache age, a rise within the declared steps", Source: "KEP-4876"},
	{ID: "answer-within-quota", Core: true, Cases: names(caseForeign, caseOutageCount),
		Claim: "The driver never reports more than Kubernetes may use: the limit minus what others attached", Source: "KEP-4876"},
	{ID: "no-stale-overwrite", Core: true, Cases: names(caseOlder),
		Claim: "An answer is not followed by an older one", Source: "KEP-4876; the kubelet writes what it was answered last"},
	{ID: "never-unbounded", Core: true, Cases: names(caseOutage, caseOutageRestart, caseGarbage, caseHuge, caseNegative),
		Claim:  "Whatever its quota service does, the driver answers a limit from 1 to 2^31-1",
		Source: kubeletUnlimited},
	{ID: "gradual-recovery", Cases: names(caseSteps),
		Claim: "The answer rises by the declared step per declared interval at most", Source: "the driver's declared figures"},
	{ID: "query-budget", Cases: names(caseBudget),
		Claim: "The driver asks its quota service no more often than declared", Source: "the driver's declared figures"},
}

func names(cases ...caseID) (out []string) {
	for _, c := range cases {
		out = append(out, c.name)
	}
	return out
}

// Checks lists all checks in the order of the report.
func Checks() []Check { return slices.Clone(checks) }

// attachCases are those that need a driver that attaches, quotaCases those that need a limit that can be changed.
var (
	attachCases = []caseID{
		caseNoVolumeID, caseNoNodeID, caseNoCapability, caseFirst, caseFill, caseTwice, caseWhenFull, caseOver, caseUnseen, caseAttachOutages, caseFull, caseNoVolume, caseNoNode,
		caseIncompatible, caseOutageCode, caseThrottled, caseUnpublish, caseRoom, caseUnpublishAgain, caseUnpublishVolume, caseUnpublishNode, caseTotal,
	}
	// limitCases take a driver with a limit of its own.
	limitCases = []caseID{caseFill, caseOver, caseFull, caseWhenFull, caseRoom}
	quotaCases = []caseID{
		caseUnseen, caseAttachOutages, caseOutageCode, caseThrottled, caseFall, caseRise, caseForeign, caseOutageCount, caseOlder,
		caseOutage, caseOutageRestart, caseGarbage, caseHuge, caseNegative, caseSteps, caseBudget,
	}
)
