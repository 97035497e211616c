package report

// Feature is something that a driver has, with what shows it.
type Feature struct {
	Name string
	// Core features are those of every driver with a limit. Extended ones are those of some: a driver whose limit never changes has no MutableLimit.
	Core bool
	Doc  string
	// Requirements and Invariants are the rows of a report that show it.
	Requirements, Invariants []string
}

// ProfileName is the one profile there is.
const ProfileName = "AttachCapacity"

// Features of the profile, core ones first.
var Features = []Feature{
	{
		Name: "TruthfulLimit", Core: true, Doc: "reports a limit that it keeps to, whatever is attached and however often it starts",
		Requirements: []string{"limit-enforced"},
		Invariants:   []string{"never-unbounded", "answer-within-quota", "total-not-remaining", "node-id-stable"},
	},
	{
		Name: "HonestAttach", Core: true, Doc: "refuses what does not fit, says why by its code, and attaches once what it is told twice",
		Requirements: []string{"publish-repeated"},
		Invariants:   []string{"attach-rechecked", "class-is-honest", "publish-idempotent"},
	},
	{
		Name: "Scheduling", Core: true, Doc: "works with Kubernetes' own controllers: pods find room, wait for it, and give it back",
		Requirements: []string{
			"churn", "deployment-rollout", "detach-frees-room", "ephemeral-volume", "job-completes", "more-claims-than-count", "other-drivers-volumes",
			"several-claims", "shared-claim", "statefulset-restart",
		},
		Invariants: []string{"no-leaked-attachment"},
	},
	{
		Name: "Restart", Core: true, Doc: "keeps its limit and its registration over a restart",
		Requirements: []string{"driver-restart", "driver-deregisters"},
	},
	{
		Name: "MutableLimit", Doc: "follows a limit that changes, and what others attach",
		Requirements: []string{"count-drop", "count-raise", "foreign-attachments", "more-demand-than-room", "period-changes", "kubelet-restart", "driver-down-at-tick"},
		Invariants:   []string{"quota-to-answer", "no-stale-overwrite"},
	},
	{
		Name: "ReactiveRefresh", Doc: "makes Kubernetes look again when a node is full that nobody knew to be",
		Requirements: []string{"stale-count-race", "reactive-refresh", "attach-classes"},
	},
	{
		Name: "QuotaOutage", Doc: "stays truthful while the service fails that knows its quota",
		Requirements: []string{
			"quota-outage-refuse", "quota-outage-hang", "quota-outage-garbage", "quota-nonsense", "registration-in-outage", "throttled", "attach-outage",
		},
		Invariants: []string{"recovers-after-heal"},
	},
	{
		Name: "GradualRecovery", Doc: "rises by steps after an outage or a drop",
		Requirements: []string{"recovery-steps"}, Invariants: []string{"gradual-recovery"},
	},
	{
		Name: "QueryBudget", Doc: "asks the service that knows its quota no more often than it declares, and not with all nodes at once",
		Requirements: []string{"aligned-periods"}, Invariants: []string{"query-budget", "phases-spread"},
	},
	{
		Name: "DynamicVolumes", Doc: "makes and deletes the volumes that external-provisioner asks for",
		Invariants: []string{"volume-made", "volume-deleted"},
	},
	{
		Name: "Releases", Doc: "keeps an older release of itself from speaking for a newer one",
		Requirements: []string{"driver-old-version"},
	},
}
