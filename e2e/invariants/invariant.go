// Package invariants holds the properties that a run's history must satisfy, one per file, as pure functions over events.
//
// Contract: a Checker sees the events of one merged history in order, each once, and answers at the end. It reads nothing else: no clock, no
// cluster, no files. The same history gives the same verdicts anywhere. Inconclusive is never a pass.
//
// What it does not do: observe, inject, wait, or know how the events came to be.
package invariants

import (
	"headroom/e2e/framework/history"
)

// Status is the answer to a claim. Its zero value fails a run.
type Status string

const (
	// Held means that the claim was put to the test in this history and held.
	Held Status = "Held"
	// Violated means that the history proves the claim wrong.
	Violated Status = "Violated"
	// Inconclusive means that the history does not tell: a gap, a slow harness, an ambiguous link.
	Inconclusive Status = "Inconclusive"
)

// Params are the run's header, for the figures and versions in it.
type Params = history.Header

// Invariant is one claim, with where it comes from and who broke it if it does not hold.
type Invariant struct {
	// Name is the row's name in the list of what must hold: "never-unbounded".
	Name string
	// Claim is the property in one or two sentences, for people.
	Claim string
	// Source is the document or code that the claim comes from.
	Source   string
	Boundary history.Boundary
	// Others are further parts that may be to blame, as a verdict's own boundary then says.
	Others []history.Boundary
	// Needs are sources, or prefixes ending in "/", that must have no gap: with one, what would be Held becomes Inconclusive.
	Needs []string
	// Attaches says that publishes are judged by what the quota backend attached. Of a driver with a limit of its own it sees nothing.
	Attaches bool
	// KnownUpstream lists what released Kubernetes does not meet.
	KnownUpstream []Known
	New           func(Params) Checker
}

// Known is a released defect of an upstream component.
type Known struct {
	// Versions is a range such as ">=1.33 <1.38".
	Versions string
	// Source is a source line or a link.
	Source string
	// Scenario is the id of the scenario that shows it.
	Scenario string
	// Signed says that the checker can tell this defect from others: only a verdict whose Defect is Scenario is this one.
	Signed bool
}

// Checker judges one invariant over one history.
type Checker interface {
	// Observe takes the next event. Events come in merge order: by At, Source, Seq.
	Observe(history.Event)
	// Finish returns one verdict per node, driver or pod judged; none when the history never put the claim to the test.
	Finish() []Verdict
}

// Verdict is the answer for one subject.
type Verdict struct {
	Status   Status           `json:"status"`
	Boundary history.Boundary `json:"boundary"`
	// Subject is the node, driver or pod judged.
	Subject string `json:"subject"`
	// Scope is the spec during which it was judged, "" where it spans several.
	Scope string `json:"scope,omitempty"`
	// Judged is how many times the claim was put to the test and held.
	Judged int `json:"judged,omitempty"`
	// Samples is how many durations were measured, and Worst the longest of them, where the claim is about durations.
	Samples int              `json:"samples,omitempty"`
	Worst   history.Duration `json:"worst,omitzero"`
	// Evidence are the events that prove a violation, or that leave it open.
	Evidence []history.Ref `json:"evidence,omitempty"`
	// Defect is the Scenario of the known defect that every violation of the subject bears the marks of, "" where one does not.
	Defect string `json:"defect,omitempty"`
	// Detail says want, got, when.
	Detail string `json:"detail,omitempty"`
}
