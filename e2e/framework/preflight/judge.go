package preflight

import (
	"errors"
	"fmt"
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

// some names the first few of many.
func some(names []string) string {
	const shown = 3
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}
