package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// driver are the findings of one driver.
func (j judge) driver(d Driver) []Finding {
	var all []Finding
	add := func(level Level, rule string, boundary history.Boundary, remedy, what string, args ...any) {
		all = append(all, Finding{Level: level, Rule: rule, Boundary: boundary, What: fmt.Sprintf(what, args...), Remedy: remedy})
	}
	if !d.Object {
		add(Warning, "no-object", history.Driver, "create the CSIDriver that the driver's manifests have", "there is no CSIDriver %q, so that no period can be set", d.Name)
	}
	j.period(d, add)
	if d.Period != nil {
		j.refresh(d, add)
		j.reactive(d, add)
	}
	j.counts(d, add)
	writers := map[string][]string{}
	for _, e := range d.Entries {
		for _, w := range e.Writers {
			writers[w] = append(writers[w], e.Node)
		}
	}
	for _, w := range slices.Sorted(maps.Keys(writers)) {
		add(NoGo, "direct-writer", history.APIServer, "stop it; fixtures/manifests/csinode-guard.yaml refuses such writes",
			"%q wrote this driver's entry in CSINodes (%s): only kubelets may", w, some(writers[w]))
	}
	return all
}

type adder func(level Level, rule string, boundary history.Boundary, remedy, what string, args ...any)

// period looks at the period itself.
func (j judge) period(d Driver, add adder) {
	if d.Dropped {
		stored := j.apply(versions.PeriodStored, j.facts.Server, j.facts.Gate)
		level := Warning
		if j.facts.Server.MinorOf().Compare(stored.Since) < 0 {
			level = NoGo // server-side apply of the same manifest fails
		}
		add(level, "field-dropped", history.APIServer, "apply the CSIDriver again after the upgrade, or leave the field out until then",
			"the manifest that was applied sets nodeAllocatableUpdatePeriodSeconds, the stored object has none: %s", stored.Text())
	}
	switch p := d.Period; {
	case p == nil && d.Object && !d.Dropped:
		add(Warning, "period-unset", history.Driver, "set nodeAllocatableUpdatePeriodSeconds on the CSIDriver once all kubelets have the feature",
			"no period is set: counts are refreshed at registration only, and pods that wait on a full node are not rejected")
	case p == nil:
	case *p > maxPeriod:
		add(NoGo, "period-overflows", history.Kubelet, "set it to a day or less", "the period of %d s overflows: a kubelet that starts to refresh panics, on every node of the driver", *p)
	case *p < minPeriod:
		add(NoGo, "period-too-short", history.APIServer, "set it to 10 or more", "the period of %d s is below the least of %d s: the API server refuses each change of the object", *p, minPeriod)
	}
}

// refresh looks for kubelets that do not act on a period that the API server keeps.
func (j judge) refresh(d Driver, add adder) {
	stored := j.server(versions.PeriodStored)
	if !stored.Works {
		add(Warning, "period-inert", history.APIServer, "upgrade the API server, or turn the gate on", "a period is set that was stored earlier: %s", stored.Text())
		return
	}
	var silent []string
	why := ""
	for _, n := range j.facts.Nodes {
		if !slices.ContainsFunc(d.Entries, func(e Entry) bool { return e.Node == n.Name }) {
			continue
		}
		if a := j.apply(versions.PeriodicRefresh, n.Kubelet, n.Gate); !a.Works {
			silent, why = append(silent, n.Name), fmt.Sprintf("kubelet %s does not act on it (%s)", n.Kubelet, a.Why)
		}
	}
	if len(silent) > 0 {
		add(Warning, "silent", history.Kubelet, "upgrade these kubelets too; until then do not rely on their counts",
			"silent: kube-apiserver %s stores the period of %d s, and %s (%s)", stored.Version, *d.Period, why, some(silent))
	}
}

// reactive looks for what keeps a failed attach from rejecting the pod.
func (j judge) reactive(d Driver, add adder) {
	stored := j.server(versions.ErrorCodeStored)
	if !stored.Works {
		add(Warning, "code-not-stored", history.APIServer, "upgrade the API server, or turn the gate on", "%s", stored.Text())
		return
	}
	remedy := "take external-attacher v4.12 or later, or give v4.11 --feature-gates=" + versions.MutableCSINodeAllocatableCount + "=true"
	f, _ := j.table.Feature(versions.ErrorCodeSet)
	a := d.Attacher
	if a.Version == "" && j.options.Attacher != "" {
		a.Version = j.options.Attacher
	}
	switch {
	case a.Version != "" && !j.table.Apply(f, a.Version, a.Gate).Works:
		text := j.table.Apply(f, a.Version, a.Gate).Text()
		if a.Where != "" {
			text += ", " + a.Where
		}
		add(NoGo, "no-error-code", history.Attacher, remedy, "%s", text)
	case a.Several:
		add(Warning, "several-attachers", history.Attacher, "bring all replicas to one version", "the replicas of external-attacher differ (%s and others)", a.Where)
	case a.Version != "", d.Codes > 0: // seen to work
	case d.NoCodes > 0 && j.apply(versions.ErrorCodeStored, j.facts.Server, j.facts.Gate).Works:
		add(NoGo, "no-error-code", history.Attacher, remedy, "reactive path dead: %d attach errors carry no errorCode although the API server keeps it", d.NoCodes)
	default:
		add(Unknown, "attacher-unseen", history.Attacher, "say its version with --attacher", "no pod shows which external-attacher serves the driver: below v4.12 it may not set errorCode")
	}
}

// counts looks at what CSINodes say.
func (j judge) counts(d Driver, add adder) {
	var without, below []string
	for _, e := range d.Entries {
		switch {
		case e.Count == nil:
			without = append(without, e.Node)
		case int(*e.Count) < e.Attached:
			below = append(below, fmt.Sprintf("%s: %d below %d", e.Node, *e.Count, e.Attached))
		}
	}
	switch {
	case len(without) == 0:
	case len(without) == len(d.Entries):
		add(Warning, "no-counts", history.Driver, "let NodeGetInfo answer max_volumes_per_node", "the driver reports no count on any node: the scheduler sees no limit")
	default:
		add(NoGo, "no-count", history.Driver, "look at the driver's registration there; an answer of 0 or less, or an error, leaves a node without a limit",
			"no count on %s, which is unlimited to the scheduler, though other nodes have one", some(without))
	}
	if len(below) > 0 {
		add(NoGo, "count-below-use", history.Driver, "let the driver report the total that may be attached, not what is left; see `headroom explain total-not-remaining`",
			"the count is below the volumes attached (%s)", strings.Join(below, ", "))
	}
}
