package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// Upgrade is a walk over versions: what was done, how long it took, and the answer.
type Upgrade struct {
	From string `json:"from" yaml:"from"`
	To   string `json:"to" yaml:"to"`
	// NewDriver is the definition that played the driver's new release, "" where the driver did.
	NewDriver string `json:"newDriver,omitempty" yaml:"newDriver,omitempty"`
	// Safe is the answer; Because are the reasons for it.
	Safe    bool     `json:"safe" yaml:"safe"`
	Because []string `json:"because" yaml:"because"`
	// Steps were planned, and Taken of them done.
	Steps int `json:"steps" yaml:"steps"`
	Taken int `json:"taken" yaml:"taken"`
	// Failed is why the walk ended early, "" where it did not; Stops are the stop rules that were broken.
	Failed string        `json:"failed,omitempty" yaml:"failed,omitempty"`
	Stops  []UpgradeStop `json:"stops,omitempty" yaml:"stops,omitempty"`
	Swaps  []UpgradeSwap `json:"swaps" yaml:"swaps"`
	// MedianSeconds and WorstSeconds are over Swaps.
	MedianSeconds float64 `json:"medianSeconds" yaml:"medianSeconds"`
	WorstSeconds  float64 `json:"worstSeconds" yaml:"worstSeconds"`
	// Unsupported are steps that the version skew policy does not support.
	Unsupported []string `json:"unsupported,omitempty" yaml:"unsupported,omitempty"`
}

// UpgradeSwap is one component's way to another version.
type UpgradeSwap struct {
	Step      int    `json:"step" yaml:"step"`
	Leg       string `json:"leg" yaml:"leg"`
	Component string `json:"component" yaml:"component"`
	From      string `json:"from" yaml:"from"`
	To        string `json:"to" yaml:"to"`
	// ReadySeconds is from the signal until it was ready; Seconds until every kubelet had renewed its lease as well.
	ReadySeconds float64 `json:"readySeconds" yaml:"readySeconds"`
	Seconds      float64 `json:"seconds" yaml:"seconds"`
}

// UpgradeStop is a stop rule that was broken.
type UpgradeStop struct {
	At     Duration `json:"at" yaml:"at"`
	Rule   string   `json:"rule" yaml:"rule"`
	Signal string   `json:"signal" yaml:"signal"`
	// Paused says that it paused growth and did not end the walk.
	Paused bool   `json:"paused,omitempty" yaml:"paused,omitempty"`
	Detail string `json:"detail" yaml:"detail"`
}

// upgrades folds the events of a walk.
type upgrades struct {
	out *Upgrade
	// whole says that some leg came to the last change of an upgrade, the period.
	whole bool
	swaps model.Swaps
}

func (u *upgrades) observe(e history.Event, c *clock) {
	if strings.HasPrefix(e.Source, history.PrefixComponent) {
		var b history.Component
		if e.Decode(&b) == nil {
			u.swaps.Component(e, &b)
		}
		return
	}
	if e.Source != history.SourceUpgrade {
		return
	}
	switch e.Key {
	case history.KeyWalk:
		var b history.Walk
		if e.Decode(&b) != nil {
			return
		}
		if u.out == nil {
			u.out = &Upgrade{From: b.From, To: b.To, NewDriver: b.NewDriver, Steps: b.Steps}
		}
		if e.Phase != history.Invoke {
			u.out.Failed = b.Error
		}
	case history.KeyStep:
		u.step(e)
	case history.KeyStop:
		var b history.WalkStop
		if u.out != nil && e.Decode(&b) == nil {
			u.out.Stops = append(u.out.Stops, UpgradeStop{At: c.since(e.At), Rule: b.Rule, Signal: b.Signal, Paused: b.Pause, Detail: b.Detail})
		}
	case history.KeyLease:
		_, _ = u.swaps.Walk(e) // it has no body to decode
	}
}

func (u *upgrades) step(e history.Event) {
	var b history.WalkStep
	if u.out == nil || e.Decode(&b) != nil {
		return
	}
	if e.Phase == history.OK {
		u.out.Taken++
		u.whole = u.whole || b.Do == history.DoSetPeriod
		if b.Unsupported != "" {
			u.out.Unsupported = append(u.out.Unsupported, fmt.Sprintf("step %d: %s %s -> %s: %s", b.Number, b.Component, b.From, b.To, b.Unsupported))
		}
	}
	done, err := u.swaps.Walk(e)
	if err != nil || done == nil {
		return
	}
	if took, up := done.Took(); up {
		u.out.Swaps = append(u.out.Swaps, UpgradeSwap{
			Step: b.Number, Leg: b.Leg, Component: b.Component, From: b.From, To: b.To,
			ReadySeconds: inSeconds(done.Ready - done.Signal), Seconds: inSeconds(took),
		})
	}
}

func inSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// judge gives the answer once the rows of the report are there. It is yes only where every step was taken and all that was judged held.
func (u *upgrades) judge(r *Report) {
	if u.out == nil {
		return
	}
	out := u.out
	r.Upgrade = out
	var all []float64
	for _, s := range out.Swaps {
		all = append(all, s.Seconds)
	}
	if slices.Sort(all); len(all) > 0 {
		out.MedianSeconds, out.WorstSeconds = all[(len(all)-1)/2], all[len(all)-1]
	}
	if out.Because = u.objections(r); len(out.Because) == 0 && !u.whole {
		const untried = "the walk went back before the upgrade was whole, and not up again: what comes later was not tried"
		r.Doubts, out.Because = append(r.Doubts, untried), []string{untried}
	}
	if out.Safe = len(out.Because) == 0; out.Safe {
		out.Because = []string{fmt.Sprintf("each of %s was taken, and all that was put to the test held: %s", Plural(out.Steps, "step"), held(*r))}
	}
}

// held counts the rows that held.
func held(r Report) string {
	requirements, invariants := 0, 0
	for _, q := range r.Requirements {
		if q.Status == Held {
			requirements++
		}
	}
	for _, i := range r.Invariants {
		if i.Status == Held {
			invariants++
		}
	}
	return Plural(requirements, "requirement") + " and " + Plural(invariants, "invariant")
}

// objections are the reasons against the upgrade: what ended the walk, what was violated, and what could not be told.
func (u *upgrades) objections(r *Report) (why []string) {
	out := u.out
	for _, s := range out.Stops {
		if !s.Paused {
			why = append(why, fmt.Sprintf("stop rule %s (%s): %s", s.Rule, s.Signal, s.Detail))
		}
	}
	if out.Failed != "" {
		why = append(why, "the walk ended early: "+oneLine(out.Failed))
	}
	row := func(name, boundary, detail string, status Status) {
		switch status {
		case Held, Skipped, NotJudged, KnownUpstream, Expected:
		default:
			why = append(why, fmt.Sprintf("%s %s (%s): %s", name, status.word(), cmp.Or(boundary, "-"), oneLine(detail)))
		}
	}
	for _, q := range r.Requirements {
		if q.ID == history.SpecWalk && len(why) > 0 {
			continue // that is what was said just now
		}
		row(q.ID, string(q.Boundary), q.Message, q.Status)
	}
	for _, i := range r.Invariants {
		row(i.Name, string(i.Boundary), i.Detail, i.Status)
	}
	for _, e := range r.Environment {
		why = append(why, fmt.Sprintf("nothing is proved: %s: %s", e.Op, oneLine(e.Error)))
	}
	for _, d := range r.Doubts {
		why = append(why, "nothing is proved: "+d)
	}
	if out.Taken < out.Steps && len(why) == 0 {
		why = append(why, fmt.Sprintf("only %d of %d steps are on the record", out.Taken, out.Steps))
	}
	return why
}

// UpgradePage prints the answer of a walk on one page; nothing for a run without one.
func UpgradePage(w io.Writer, r Report) error {
	u := r.Upgrade
	if u == nil {
		return nil
	}
	var out bytes.Buffer
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	answer := map[bool]string{true: "yes", false: "no"}[u.Safe]
	say("UPGRADE %s -> %s   driver %s, new release %s   seed %d", u.From, u.To, r.Driver, cmp.Or(u.NewDriver, r.Driver), r.Seed)
	say("")
	say("safe to upgrade: %s, because", answer)
	for _, reason := range u.Because {
		say("  - %s", clip(reason, 300))
	}
	say("")
	say("steps  %d of %d taken", u.Taken, u.Steps)
	if len(u.Swaps) > 0 {
		say("swaps  %d, from the signal until ready with all leases renewed: median %.1fs, worst %.1fs", len(u.Swaps), u.MedianSeconds, u.WorstSeconds)
	}
	for _, s := range u.Stops {
		what := "stopped"
		if s.Paused {
			what = "growth paused"
		}
		say("bakes  %s at %s by %s (%s): %s", what, seconds(s.At), s.Rule, s.Signal, s.Detail)
	}
	if len(u.Stops) == 0 {
		say("bakes  no stop rule was broken")
	}
	for _, s := range u.Unsupported {
		say("note   %s", s)
	}
	if len(u.Swaps) > 0 {
		say("")
		t := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
		fmt.Fprintf(t, "STEP\tLEG\tCOMPONENT\tFROM\tTO\tREADY\tLEASES\n")
		for _, s := range u.Swaps {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%.1fs\t%.1fs\n", s.Step, s.Leg, s.Component, s.From, s.To, s.ReadySeconds, s.Seconds)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}
