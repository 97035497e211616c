package preflight

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// Level is how much a finding weighs.
type Level string

const (
	// NoGo makes the upgrade unsafe.
	NoGo Level = "no-go"
	// Unknown is what could not be found out; it is never a go.
	Unknown Level = "unknown"
	// Warning is something to know. The upgrade is safe all the same.
	Warning Level = "warning"
)

// Finding is one thing that is wrong, open or worth knowing.
type Finding struct {
	Level Level `json:"level"`
	// Rule is the finding's id: "period-overflows".
	Rule string `json:"rule"`
	// Boundary is the part that has to change.
	Boundary history.Boundary `json:"boundary,omitempty"`
	What     string           `json:"what"`
	Remedy   string           `json:"remedy"`
}

// DriverResult is the answer for one driver.
type DriverResult struct {
	Driver   string    `json:"driver"`
	Answer   Answer    `json:"answer"`
	Findings []Finding `json:"findings,omitempty"`
}

// Answer is "go", "no-go" or "unknown".
type Answer string

const (
	Go         Answer = "go"
	AnswerNo   Answer = "no-go"
	AnswerOpen Answer = "unknown"
)

// Result is what Judge says.
type Result struct {
	Server versions.Version `json:"server"`
	// To is the version that is to be upgraded to; the server's own where none was given.
	To versions.Version `json:"to"`
	// Safe is the answer for the cluster as a whole: that of the worst driver, and of what concerns them all.
	Safe    Answer         `json:"safe"`
	Cluster []Finding      `json:"cluster,omitempty"`
	Drivers []DriverResult `json:"drivers"`
}

// maxPeriod is the longest period in seconds that fits a Go duration: above it, a kubelet's ticker overflows and the kubelet panics (kubernetes
// pkg/volume/csi/csi_node_updater.go).
const maxPeriod = 9223372036

// minPeriod is the shortest period that the API accepts.
const minPeriod = 10

// Options are what Judge is asked.
type Options struct {
	// To is a version of the table; "" asks about the cluster as it is.
	To versions.Version
	// Attacher is the external-attacher that serves drivers for which no pod shows one; "" is not known.
	Attacher versions.Version
}

// Judge turns facts into findings. The error is a question that cannot be asked: a target older than the server.
func Judge(f Facts, o Options) (Result, error) {
	if o.To == "" {
		o.To = f.Server
	}
	if o.To.MinorOf().Compare(f.Server.MinorOf()) < 0 {
		return Result{}, fmt.Errorf("the API server runs %s, which is newer than %s: preflight is about upgrades", f.Server, o.To)
	}
	j := judge{facts: f, options: o, table: versions.Embedded()}
	r := Result{Server: f.Server, To: o.To, Cluster: j.cluster(), Drivers: []DriverResult{}}
	answers := []Answer{answerOf(r.Cluster)}
	for _, d := range f.Drivers {
		findings := j.driver(d)
		one := DriverResult{Driver: d.Name, Answer: answerOf(slices.Concat(r.Cluster, findings)), Findings: findings}
		r.Drivers = append(r.Drivers, one)
		answers = append(answers, one.Answer)
	}
	r.Safe = worst(answers)
	return r, nil
}

func answerOf(findings []Finding) Answer {
	var all []Answer
	for _, f := range findings {
		switch f.Level {
		case NoGo:
			all = append(all, AnswerNo)
		case Unknown:
			all = append(all, AnswerOpen)
		}
	}
	return worst(all)
}

// worst is the answer that outranks the others: what is known to be wrong, then what is not known.
func worst(all []Answer) Answer {
	for _, a := range []Answer{AnswerNo, AnswerOpen} {
		if slices.Contains(all, a) {
			return a
		}
	}
	return Go
}

// judge holds what the rules look at.
type judge struct {
	facts   Facts
	options Options
	table   versions.Table
}

// apply says what comes of a feature in a component at a version whose gate was seen in the given state.
func (j judge) apply(feature string, v versions.Version, gate Gate) versions.Applied {
	f, _ := j.table.Feature(feature) // a constant of package versions
	set := ""
	if gate.Known {
		set = fmt.Sprint(gate.On)
	}
	return j.table.Apply(f, v, set)
}

// server is what comes of a feature of kube-apiserver after the upgrade. What a flag says of the gate now, it says then.
func (j judge) server(feature string) versions.Applied {
	if j.options.To.MinorOf() == j.facts.Server.MinorOf() {
		return j.apply(feature, j.facts.Server, j.facts.Gate)
	}
	return j.apply(feature, j.options.To, j.kept(j.facts.Gate, j.facts.Server))
}

// kept is a gate after an upgrade: what differs from a version's default was set by a flag, and flags stay. All components of a release have one default.
func (j judge) kept(g Gate, v versions.Version) Gate {
	f, _ := j.table.Feature(versions.PeriodStored) // a constant of package versions
	if g.Known && j.table.Apply(f, v, "").Works == g.On {
		return Gate{}
	}
	return g
}

// cluster are the findings that concern all drivers.
func (j judge) cluster() []Finding {
	var all []Finding
	for _, u := range j.facts.Unread {
		all = append(all, Finding{
			Level: Unknown, Rule: "unread", What: fmt.Sprintf("%s could not be read: %s", u.What, u.Why),
			Remedy: "give the user of the kubeconfig the right to get and list them, then ask again",
		})
	}
	all = append(all, j.skew(j.facts.Server, "skew", "now")...)
	if j.options.To.MinorOf() != j.facts.Server.MinorOf() {
		all = append(all, j.skew(j.options.To, "skew-after", "after the upgrade of the API server")...)
	}
	var step *versions.SkewError
	if err := j.table.Skew.Upgrade(j.facts.Server, j.options.To); errors.As(err, &step) {
		all = append(all, Finding{
			Level: Warning, Rule: "several-steps", Boundary: history.APIServer, What: fmt.Sprintf("from %s to %s: %s", j.facts.Server, j.options.To, step.Rule),
			Remedy: "upgrade to each minor version in between, and ask again after each",
		})
	}
	return append(all, j.gates()...)
}

// skew groups the kubelets that a server of version v does not support.
func (j judge) skew(v versions.Version, rule, when string) []Finding {
	nodes := map[string][]string{}
	var order []string
	for _, n := range j.facts.Nodes {
		c := versions.Combination{APIServer: v, ControllerManager: v, Scheduler: v, Kubelet: n.Kubelet}
		var broken *versions.SkewError
		if err := j.table.Skew.Check(c); errors.As(err, &broken) {
			if nodes[broken.Error()] == nil {
				order = append(order, broken.Error())
			}
			nodes[broken.Error()] = append(nodes[broken.Error()], n.Name)
		}
	}
	var all []Finding
	for _, what := range order {
		all = append(all, Finding{
			Level: NoGo, Rule: rule, Boundary: history.Kubelet, What: fmt.Sprintf("%s: %s (%s)", when, what, some(nodes[what])),
			Remedy: "upgrade these kubelets, with a drain, before the API server",
		})
	}
	return all
}

// gates are flags that a component of the target version would not start with, and gates that nobody could tell.
func (j judge) gates() []Finding {
	var all []Finding
	if off := j.kept(j.facts.Gate, j.facts.Server); off.Known && !off.On && j.table.CheckGate("kube-apiserver", j.options.To, versions.MutableCSINodeAllocatableCount, false) != nil {
		all = append(all, Finding{
			Level: NoGo, Rule: "gate-set", Boundary: history.APIServer,
			What:   fmt.Sprintf("kube-apiserver %s has %s=false set; %s has it locked to true and would exit", j.facts.Server, versions.MutableCSINodeAllocatableCount, j.options.To),
			Remedy: "remove the gate from --feature-gates",
		})
	}
	if !j.facts.Gate.Known && j.table.Unlocked(versions.PeriodStored, j.facts.Server) {
		all = append(all, Finding{
			Level: Unknown, Rule: "gate-unseen", Boundary: history.APIServer, What: "the API server's feature gate could not be seen: " + j.facts.Gate.Why,
			Remedy: "give the user of the kubeconfig the right to get /metrics",
		})
	}
	var set, unseen []string
	why := ""
	for _, n := range j.facts.Nodes {
		if off := j.kept(n.Gate, n.Kubelet); off.Known && !off.On && j.table.CheckGate("kubelet", j.options.To, versions.MutableCSINodeAllocatableCount, false) != nil {
			set = append(set, n.Name)
		}
		if !n.Gate.Known && j.table.Unlocked(versions.PeriodicRefresh, n.Kubelet) {
			unseen, why = append(unseen, n.Name), n.Gate.Why
		}
	}
	if len(set) > 0 {
		all = append(all, Finding{
			Level: NoGo, Rule: "kubelet-gate-set", Boundary: history.Kubelet,
			What:   fmt.Sprintf("kubelets have %s=false set (%s); %s has it locked to true and would exit", versions.MutableCSINodeAllocatableCount, some(set), j.options.To),
			Remedy: "remove the gate from their configuration before they are upgraded",
		})
	}
	if len(unseen) > 0 {
		all = append(all, Finding{
			Level: Unknown, Rule: "kubelet-gate-unseen", Boundary: history.Kubelet, What: fmt.Sprintf("the kubelets' feature gate could not be seen (%s): %s", some(unseen), why),
			Remedy: "give the user of the kubeconfig the right to get nodes/proxy",
		})
	}
	return all
}

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

// some names the first few of many.
func some(names []string) string {
	const shown = 3
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}
