package report

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report/signals"
	"headroom/e2e/invariants"
)

// Judged is one invariant with what its checker answered.
type Judged struct {
	Invariant invariants.Invariant
	// Verdicts is empty where the history never put the claim to the test.
	Verdicts []invariants.Verdict
	// Reason says why there are no verdicts; empty means that the history never put the claim to the test.
	Reason string
}

// Input is what a report is made from.
type Input struct {
	Header history.Header
	// Judged lists the invariants in the order of the report.
	Judged []Judged
	// Environment are the problems that the caller met; those that the history tells of are added.
	Environment []EnvironmentProblem
	// Events yields the history once, in order. An error ends it and makes the run inconclusive: what came before is still reported.
	Events iter.Seq2[history.Event, error]
}

// Build makes the report in one pass over the events. It keeps only the events that verdicts name and the last few of each running spec.
func Build(in Input) Report {
	b := builder{
		scopes:   newScopes(),
		specs:    newSpecs(),
		evidence: newEvidence(in.Judged),
		harness:  newHarness(in.Header),
		versions: newRunning(in.Header.Versions),
		signals:  signals.New(in.Header),
		quota:    in.Header.Params.Driver.Limit,
	}
	var damage error
	for e, err := range in.Events {
		if err != nil {
			damage = err
			break
		}
		b.observe(e)
	}
	r := Report{
		APIVersion: APIVersion, Kind: Kind,
		Run: in.Header.Run, Seed: in.Header.Seed, Provider: in.Header.Provider, Topology: in.Header.Topology,
		Driver: in.Header.Params.Driver.Name, Versions: in.Header.Versions,
		Elapsed:      round(b.last - b.clock.start),
		Rules:        rulesOf(in.Header),
		Requirements: b.specs.finish(b.last, &b.clock),
		Environment:  dedupe(append(slices.Clone(in.Environment), b.environment...)),
		Signals:      b.signals.Finish(),
		Harness:      b.harness.out,
	}
	if !b.wall.IsZero() {
		r.Started = b.wall.UTC().Truncate(time.Millisecond)
	}
	for _, j := range in.Judged {
		r.Invariants = append(r.Invariants, b.row(j, damage != nil))
	}
	b.expectations.judge(&r)
	if damage != nil {
		r.Doubts = append(r.Doubts, fmt.Sprintf("the history is damaged: %v", damage))
	}
	for _, g := range r.Harness.Gaps {
		if isSpec(g.Source) {
			r.Doubts = append(r.Doubts, fmt.Sprintf("requirements may be missing: %s: %s", g.Source, g.Reason))
		}
	}
	if r.Summary = r.Summarise(); r.Summary.judged() == 0 {
		r.Doubts = append(r.Doubts, "nothing was judged: no requirement ended and no invariant was put to the test")
	}
	b.upgrades.judge(&r)
	r.Summary = r.Summarise()
	r.Conformance = r.conform(Conformance{
		Driver: r.Driver, Version: b.driverVersion, Quota: cmp.Or(in.Header.Params.Driver.Limit, "backend"), Date: r.Started,
	})
	return r
}

// clock counts from the first event. Gap events do not start it: that of an empty file has no time.
type clock struct {
	start   time.Duration
	started bool
}

func (c *clock) since(at time.Duration) Duration { return round(max(0, at-c.start)) }

type builder struct {
	clock       clock
	last        time.Duration
	wall        time.Time // at clock.start
	scopes      scopes
	specs       *specs
	evidence    *evidence
	harness     *harness
	versions    running
	signals     *signals.Collector
	environment []EnvironmentProblem
	// expectations are those of the scenarios that were played.
	expectations expectations
	upgrades     upgrades
	// driverVersion is what the driver answered to GetPluginInfo first.
	driverVersion string
	// quota is where the driver's limit comes from.
	quota string
}

func (b *builder) observe(e history.Event) {
	if e.Phase != history.Gap && !b.clock.started {
		b.clock = clock{start: e.At, started: true}
	}
	b.last = max(b.last, e.At)
	b.scopes.observe(e)
	b.evidence.observe(e, &b.clock)
	b.specs.observe(e, b.scopes.of(e), &b.clock)
	if wall := b.harness.observe(e, &b.clock); b.wall.IsZero() && !wall.IsZero() {
		b.wall = wall.Add(b.clock.start - e.At)
	}
	b.versions.observe(e)
	b.signals.Observe(e)
	b.expectations.observe(e)
	b.version(e)
	b.upgrades.observe(e, &b.clock)
	if e.Source == history.SourceFault {
		b.fault(e)
	}
}

// version notes which version of the driver ran.
func (b *builder) version(e history.Event) {
	var c history.CSICall
	if b.driverVersion == "" && e.Key == "GetPluginInfo" && e.Phase == history.OK && e.Decode(&c) == nil {
		b.driverVersion = c.Version
	}
}

// fault notes faults that could not be injected or healed: what was judged meanwhile did not see what was planned.
func (b *builder) fault(e history.Event) {
	var f history.Fault
	if e.Decode(&f) != nil || f.State != "failed" {
		return
	}
	op := "fault " + e.Key
	if f.Target != "" {
		op += " on " + f.Target
	}
	b.environment = append(b.environment, EnvironmentProblem{Op: op, Error: cmp.Or(f.Detail, "failed without a reason")})
}

func dedupe(in []EnvironmentProblem) []EnvironmentProblem {
	var out []EnvironmentProblem
	for _, p := range in {
		same := func(o EnvironmentProblem) bool { return o.Op == p.Op && o.Error == p.Error }
		if !slices.ContainsFunc(out, same) {
			out = append(out, p)
		}
	}
	return out
}
