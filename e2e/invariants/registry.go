package invariants

import "slices"

// All returns every invariant, by name. To add one, write its file and name it here.
func All() []Invariant {
	all := []Invariant{
		answerToCSINode, answerWithinQuota, asksEveryPeriod, attachRechecked, classIsHonest, neverUnbounded, oneWriter, reactiveConverges,
		gradualRecovery, noStaleOverwrite, nodeIDStable, phasesSpread, publishIdempotent, queryBudget, quotaToAnswer, totalNotRemaining,
		conditionalWrites, csiNodeOwned, errorCodeFaithful, kubeletRestartKeeps, noGhost, noStaleOverwriteKubelet, onlyCapacityRefreshes,
		periodChangeApplies, rejectionAccounted, rejectionFinal, survivesGarbage, tickErrorKeeps, writeBudget,
		bindWithinSeen, detachRequeues, growthRequeues, noCollateral, noFlushNeeded, noLeakedAttachment, pendingIsExplained, recoversAfterHeal,
		rejectionCleansUp, swapInTime, upgradeSparesPods, volumeDeleted, volumeMade,
	}
	slices.SortFunc(all, func(a, b Invariant) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// Find returns the invariant of that name; false when there is none.
func Find(name string) (Invariant, bool) {
	all := All()
	i := slices.IndexFunc(all, func(inv Invariant) bool { return inv.Name == name })
	if i < 0 {
		return Invariant{}, false
	}
	return all[i], true
}
