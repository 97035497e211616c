// Package report turns a judged history into what people and machines read: a table for the terminal, report.yaml, junit.xml, an exit code, and
// the progress lines of a run.
//
// Contract: a Report is made from a history and the verdicts over it, and from nothing else but the environment problems that the caller met.
// What was not judged is shown and never counts as held; a run in which nothing was judged is inconclusive; a status that is none fails the run.
//
// It does not judge (package invariants does), it starts nothing, and it does not decide what a spec's outcome is.
package report

import (
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report/signals"
	"headroom/e2e/invariants"
)

// Identity of the format of report.yaml; readers refuse others.
const (
	APIVersion = "headroom/v1alpha1"
	Kind       = "Report"
)

// Status is the answer for one row. Its zero value, and every value that is not named here, fails a run.
type Status string

const (
	Held         = Status(invariants.Held)
	Violated     = Status(invariants.Violated)
	Inconclusive = Status(invariants.Inconclusive)
	// KnownUpstream is a violation that the invariant declares for the versions that ran. It is reported apart and fails no run.
	KnownUpstream Status = "KnownUpstream"
	// Expected is a violation that a scenario was played to show. It fails no run.
	Expected Status = "Expected"
	// NotJudged says that the history never put an invariant to the test. It fails no run by itself, and is no pass.
	NotJudged Status = "NotJudged"
	// Skipped is a requirement that did not apply, for the reason in its message.
	Skipped Status = "Skipped"
)

// Report is what a run showed. Times are counted from the history's first event.
type Report struct {
	APIVersion string `json:"apiVersion" yaml:"apiVersion"`
	Kind       string `json:"kind" yaml:"kind"`
	Run        string `json:"run" yaml:"run"`
	Seed       int64  `json:"seed" yaml:"seed"`
	Provider   string `json:"provider" yaml:"provider"`
	Topology   string `json:"topology,omitempty" yaml:"topology,omitempty"`
	Driver     string `json:"driver" yaml:"driver"`
	// Versions maps a component kind to the version the run began with.
	Versions map[string]string `json:"versions" yaml:"versions"`
	// Started is the wall clock at the first event; zero where no heartbeat tells it.
	Started time.Time `json:"started,omitzero" yaml:"started,omitempty"`
	Elapsed Duration  `json:"elapsed" yaml:"elapsed"`
	Summary Summary   `json:"summary" yaml:"summary"`
	// Conformance is the driver's part; nil where nothing of a profile was run.
	Conformance *Conformance `json:"conformance,omitempty" yaml:"conformance,omitempty"`
	// Doubts are reasons for which the run as a whole is inconclusive, whatever its rows say.
	Doubts      []string             `json:"doubts,omitempty" yaml:"doubts,omitempty"`
	Environment []EnvironmentProblem `json:"environment,omitempty" yaml:"environment,omitempty"`
	// Rules say what the versions that the run began with do, and so which requirements applied.
	Rules        []Rule            `json:"rules,omitempty" yaml:"rules,omitempty"`
	Requirements []Requirement     `json:"requirements" yaml:"requirements"`
	Invariants   []InvariantResult `json:"invariants" yaml:"invariants"`
	// Upgrade is the walk over versions that the run took, nil for none.
	Upgrade *Upgrade `json:"upgrade,omitempty" yaml:"upgrade,omitempty"`
	// Signals are figures of the run. They fail nothing.
	Signals signals.Signals `json:"signals" yaml:"signals"`
	Harness Harness         `json:"harness" yaml:"harness"`
}

// Rule is a feature that some versions do not have, see kind-configs/versions.yaml.
type Rule struct {
	// Feature is its name, such as "periodic-refresh".
	Feature  string           `json:"feature" yaml:"feature"`
	Boundary history.Boundary `json:"boundary" yaml:"boundary"`
	Works    bool             `json:"works" yaml:"works"`
	// Text says what the component does, or what follows where it does not.
	Text string `json:"text" yaml:"text"`
}

// Requirement is one spec.
type Requirement struct {
	// ID is the spec's id, such as "conformance/count-drop".
	ID       string           `json:"id" yaml:"id"`
	Title    string           `json:"title,omitempty" yaml:"title,omitempty"`
	Boundary history.Boundary `json:"boundary,omitempty" yaml:"boundary,omitempty"`
	Status   Status           `json:"status" yaml:"status"`
	// Scope is what the spec's events carry, "" where its end does not say.
	Scope   string   `json:"scope,omitempty" yaml:"scope,omitempty"`
	Started Duration `json:"started" yaml:"started"`
	Elapsed Duration `json:"elapsed" yaml:"elapsed"`
	// Message is want, got, when; for a skipped spec the reason.
	Message string `json:"message,omitempty" yaml:"message,omitempty"`
	// LastEvents are the last events of the spec's scope before it ended, unless it held. They are context, not proof.
	LastEvents []Event `json:"lastEvents,omitempty" yaml:"lastEvents,omitempty"`
}

// InvariantResult is one invariant with its verdicts.
type InvariantResult struct {
	Name     string           `json:"name" yaml:"name"`
	Claim    string           `json:"claim" yaml:"claim"`
	Source   string           `json:"source,omitempty" yaml:"source,omitempty"`
	Boundary history.Boundary `json:"boundary" yaml:"boundary"`
	// Status is the worst of the verdicts: violated, inconclusive, known upstream, held.
	Status Status `json:"status" yaml:"status"`
	// Detail is the first worst verdict's detail, or why nothing was judged.
	Detail string `json:"detail,omitempty" yaml:"detail,omitempty"`
	// Known are the declared upstream defects that apply to the versions that ran.
	Known    []Known   `json:"known,omitempty" yaml:"known,omitempty"`
	Verdicts []Verdict `json:"verdicts,omitempty" yaml:"verdicts,omitempty"`
}

// Known is a declared defect of released upstream components.
type Known struct {
	Versions string `json:"versions" yaml:"versions"`
	Source   string `json:"source,omitempty" yaml:"source,omitempty"`
	Scenario string `json:"scenario,omitempty" yaml:"scenario,omitempty"`
}

// Verdict is the answer for one subject.
type Verdict struct {
	Status   Status           `json:"status" yaml:"status"`
	Boundary history.Boundary `json:"boundary,omitempty" yaml:"boundary,omitempty"`
	Subject  string           `json:"subject,omitempty" yaml:"subject,omitempty"`
	Scope    string           `json:"scope,omitempty" yaml:"scope,omitempty"`
	// Spec is the requirement whose scope that is, where its end names it.
	Spec   string `json:"spec,omitempty" yaml:"spec,omitempty"`
	Detail string `json:"detail,omitempty" yaml:"detail,omitempty"`
	// Judged is how many times the claim was put to the test and held; Samples of them were durations, the longest of which was Worst.
	Judged   int      `json:"judged,omitempty" yaml:"judged,omitempty"`
	Samples  int      `json:"samples,omitempty" yaml:"samples,omitempty"`
	Worst    Duration `json:"worst,omitempty" yaml:"worst,omitempty"`
	Evidence []Event  `json:"evidence,omitempty" yaml:"evidence,omitempty"`
	// More is how many further pieces of evidence the verdict names.
	More int `json:"more,omitempty" yaml:"more,omitempty"`
}

// Event is an event of the history, cut for reading.
type Event struct {
	// Ref finds it in the history: source#number.
	Ref   string        `json:"ref" yaml:"ref"`
	At    Duration      `json:"at" yaml:"at"`
	Phase history.Phase `json:"phase,omitempty" yaml:"phase,omitempty"`
	Node  string        `json:"node,omitempty" yaml:"node,omitempty"`
	Key   string        `json:"key,omitempty" yaml:"key,omitempty"`
	// Body is the event's JSON, at most maxBody bytes of it.
	Body string `json:"body,omitempty" yaml:"body,omitempty"`
	// Missing says that the history has no such event.
	Missing bool `json:"missing,omitempty" yaml:"missing,omitempty"`
}

// EnvironmentProblem is a failure of the harness or of the machine, never of the product under test.
type EnvironmentProblem struct {
	// Op is what was being done: "start kube-apiserver".
	Op     string `json:"op" yaml:"op"`
	Error  string `json:"error" yaml:"error"`
	Remedy string `json:"remedy,omitempty" yaml:"remedy,omitempty"`
}

// Harness is what the harness measured of itself.
type Harness struct {
	// Gaps are places where the history may lack events.
	Gaps []Gap `json:"gaps,omitempty" yaml:"gaps,omitempty"`
	// Slow are intervals in which the harness or the API server answered more slowly than half the slack.
	Slow []Slow `json:"slow,omitempty" yaml:"slow,omitempty"`
}

// Gap is a place where a source may have lost events.
type Gap struct {
	Source string   `json:"source" yaml:"source"`
	At     Duration `json:"at" yaml:"at"`
	Reason string   `json:"reason" yaml:"reason"`
}

// Slow is an interval of slowness seen by one source. Worst is the longest heartbeat gap or probe latency in it.
type Slow struct {
	Source string   `json:"source" yaml:"source"`
	From   Duration `json:"from" yaml:"from"`
	To     Duration `json:"to" yaml:"to"`
	Worst  Duration `json:"worst" yaml:"worst"`
}
