package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

// walked is the input of a walk of two steps, a swap and the period, which end as they are told to.
func walked(change func(add func(at float64, e history.Event, body any))) Input {
	in := Input{Header: history.Header{Schema: history.Schema, Run: "r", Seed: 5, Provider: "local", Versions: map[string]string{"kube-apiserver": "v1.35.4"},
		Params: history.Params{Driver: history.DriverParams{Name: "steady"}}}}
	var events []history.Event
	add := func(at float64, e history.Event, body any) {
		e.At = time.Duration(at * float64(time.Second))
		if e.Phase == "" {
			e.Phase = history.Observed
		}
		if e.Source == "" {
			e.Source = history.SourceUpgrade
		}
		if body != nil {
			e.Body = history.Encode(body)
		}
		events = append(events, e)
	}
	walk := history.Walk{From: "v1.35.4", To: "v1.36.3", NewDriver: "never-refreshes", Steps: 2}
	swap := history.WalkStep{Number: 1, Leg: "rollback", Do: history.DoSwap, Component: "kube-apiserver", From: "v1.36.3", To: "v1.35.4", Unsupported: "no way back"}
	server := func(at float64, state string) {
		add(at, history.Event{Source: "component/cell", Key: "kube-apiserver"}, history.Component{State: state})
	}
	add(0, history.Event{Source: "spec/runner", Phase: history.Invoke, Op: "upgrade-walk", Key: "upgrade-walk"}, history.Spec{Boundary: history.APIServer})
	add(1, history.Event{Phase: history.Invoke, Op: "walk", Key: history.KeyWalk}, walk)
	add(2, history.Event{Phase: history.Invoke, Op: "step-1", Key: history.KeyStep}, swap)
	server(2.5, "stopping")
	server(5, "ready")
	add(6.25, history.Event{Op: "step-1", Key: history.KeyLease, Node: "n1"}, nil)
	add(6.3, history.Event{Phase: history.OK, Op: "step-1", Key: history.KeyStep}, swap)
	change(add)
	for i := range events {
		events[i].Seq = uint64(i + 1)
	}
	in.Events = func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
	return in
}

func TestUpgradePage(t *testing.T) {
	last := history.WalkStep{Number: 2, Leg: "upgrade again", Do: history.DoSetPeriod}
	taken := func(add func(float64, history.Event, any)) {
		add(7, history.Event{Phase: history.Invoke, Op: "step-2", Key: history.KeyStep}, last)
		add(8, history.Event{Phase: history.OK, Op: "step-2", Key: history.KeyStep}, last)
	}
	ends := func(add func(float64, history.Event, any), w history.Walk, outcome string) {
		phase := map[string]history.Phase{"Held": history.OK, "Violated": history.Fail, "Inconclusive": history.Unknown}[outcome]
		add(9, history.Event{Phase: history.OK, Op: "walk", Key: history.KeyWalk}, w)
		add(9.5, history.Event{Source: "spec/runner", Phase: phase, Op: "upgrade-walk", Key: "upgrade-walk"}, history.Spec{Boundary: history.APIServer, Outcome: outcome, Message: w.Error})
	}
	for name, c := range map[string]struct {
		change func(add func(float64, history.Event, any))
		judged []Judged
		safe   bool
		want   []string
	}{
		"yes": {func(add func(float64, history.Event, any)) { taken(add); ends(add, history.Walk{}, "Held") }, nil, true, []string{
			"UPGRADE v1.35.4 -> v1.36.3   driver steady, new release never-refreshes   seed 5",
			"safe to upgrade: yes, because\n  - each of 2 steps was taken, and all that was put to the test held: 1 requirement and 0 invariants",
			"steps  2 of 2 taken", "swaps  1, from the signal until ready with all leases renewed: median 3.8s, worst 3.8s", "no stop rule was broken",
			"note   step 1: kube-apiserver v1.36.3 -> v1.35.4: no way back", "1     rollback  kube-apiserver  v1.36.3  v1.35.4  2.5s   3.8s",
		}},
		"stopped": {func(add func(float64, history.Event, any)) {
			add(7, history.Event{Key: history.KeyStop}, history.WalkStop{Rule: "values-roll-back", Signal: "count changes", Pause: true, Detail: "want none, got 1"})
			add(8, history.Event{Key: history.KeyStop}, history.WalkStop{Rule: "count-is-stale", Signal: "update delay", Detail: "want 60s, got 61s"})
			ends(add, history.Walk{Stopped: "count-is-stale"}, "Violated")
		}, nil, false, []string{
			"safe to upgrade: no, because\n  - stop rule count-is-stale (update delay): want 60s, got 61s", "steps  1 of 2 taken",
			"bakes  growth paused at 7.0s by values-roll-back", "bakes  stopped at 8.0s by count-is-stale",
		}},
		"a step failed": {func(add func(float64, history.Event, any)) { ends(add, history.Walk{Error: "step 2: no"}, "Violated") }, nil, false, []string{
			"no, because\n  - the walk ended early: step 2: no\n\nsteps",
		}},
		"something was violated": {func(add func(float64, history.Event, any)) { taken(add); ends(add, history.Walk{}, "Held") },
			[]Judged{{Invariant: invariants.Invariant{Name: "no-ghost", Boundary: history.Kubelet},
				Verdicts: []invariants.Verdict{{Status: invariants.Violated, Boundary: history.Kubelet, Subject: "n1", Detail: "want none, got one"}}}}, false,
			[]string{"no, because\n  - no-ghost violated (kubelet): "}},
		"nothing is proved": {func(add func(float64, history.Event, any)) { taken(add); ends(add, history.Walk{}, "Inconclusive") }, nil, false, []string{
			"no, because\n  - upgrade-walk inconclusive",
		}},
		"never whole": {func(add func(float64, history.Event, any)) {
			part := last
			part.Do = history.DoDrain
			add(7, history.Event{Phase: history.Invoke, Op: "step-2", Key: history.KeyStep}, part)
			add(8, history.Event{Phase: history.OK, Op: "step-2", Key: history.KeyStep}, part)
			ends(add, history.Walk{}, "Held")
		}, nil, false, []string{"no, because\n  - the walk went back before the upgrade was whole", "steps  2 of 2 taken"}},
		"the record ends early": {func(func(float64, history.Event, any)) {}, nil, false, []string{"no, because\n  - upgrade-walk ", "steps  1 of 2 taken"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := walked(c.change)
			in.Judged = c.judged
			r := Build(in)
			var page bytes.Buffer
			if err := UpgradePage(&page, r); err != nil {
				t.Fatal(err)
			}
			if (ExitCode(r) == ExitHeld) != c.safe {
				t.Errorf("want exit code 0 for yes only, got %d for safe: %t", ExitCode(r), c.safe)
			}
			if r.Upgrade == nil || r.Upgrade.Safe != c.safe {
				t.Errorf("want safe: %t, got %+v", c.safe, r.Upgrade)
			}
			for _, want := range c.want {
				if !strings.Contains(page.String(), want) {
					t.Errorf("want %q on the page, got\n%s", want, page.String())
				}
			}
			dir := t.TempDir()
			if err := Write(dir, r); err != nil {
				t.Fatal(err)
			}
			if back, err := Read(dir + "/" + FileReport); err != nil || back.Upgrade == nil || back.Upgrade.Safe != c.safe || back.Upgrade.MedianSeconds != 3.75 {
				t.Errorf("report.yaml: want the same answer, got %+v (%v)", back.Upgrade, err)
			}
		})
	}
	var page bytes.Buffer
	if err := UpgradePage(&page, Report{}); err != nil || page.Len() > 0 {
		t.Errorf("a run without a walk: want no page, got %q (%v)", page.String(), err)
	}
}
