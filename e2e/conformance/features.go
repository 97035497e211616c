package conformance

import (
	"slices"

	"headroom/e2e/framework/versions"
)

// What specs need of the versions that run, see kind-configs/versions.yaml.
var (
	// refreshed: a count follows the driver's answers while a period is set.
	refreshed = []string{versions.PeriodStored, versions.CountMutable, versions.PeriodicRefresh}
	// coded: the code of a failed attach reaches the VolumeAttachment.
	coded = []string{versions.ErrorCodeStored, versions.ErrorCodeSet}
	// rejected: a pod that waits on a full node is rejected, and the count refreshed.
	rejected = slices.Concat([]string{versions.PeriodStored, versions.CountMutable, versions.PodRejection}, coded)
)
