package run

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/workload"
)

// outcomeOf records one spec that ends with an outcome and returns what the history says.
func outcomeOf(t *testing.T, o Outcome) (history.Event, history.Spec) {
	t.Helper()
	return outcomeIn(t, history.Header{}, Requirement{ID: "x", Claim: "claim", Boundary: history.Kubelet}, o)
}

func outcomeIn(t *testing.T, h history.Header, r Requirement, o Outcome) (history.Event, history.Spec) {
	t.Helper()
	dir := t.TempDir()
	w, err := history.Create(dir, "r", "spec/p1")
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{specs: w, Header: h}
	s.Begin(r)
	o.Scope = "p1-1"
	s.EndSpec(r, o)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "history")
	if err := history.Merge(dir, history.Header{Run: "r"}, out); err != nil {
		t.Fatal(err)
	}
	reader, err := history.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var last history.Event
	for e, err := range reader.All() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Key == "x" {
			last = e
		}
	}
	var body history.Spec
	if err := last.Decode(&body); err != nil {
		t.Fatal(err)
	}
	return last, body
}

// TestEndSpecOnTheGate: what fails of a limit that the gate has is no failure of the driver's, but for a driver that does not come up.
func TestEndSpecOnTheGate(t *testing.T) {
	gate := history.Header{Params: history.Params{Driver: history.DriverParams{Limit: history.LimitGate}}}
	wrong := errors.New("want 3, got 9")
	for name, c := range map[string]struct {
		h        history.Header
		boundary history.Boundary
		failure  error
		outcome  string
		blamed   history.Boundary
	}{
		"of the gate":             {gate, history.Driver, wrong, "Inconclusive", history.Harness},
		"blamed on the driver":    {gate, history.Kubelet, Blame(history.Driver, wrong), "Inconclusive", history.Harness},
		"of the kubelet":          {gate, history.Kubelet, wrong, "Violated", history.Kubelet},
		"it does not come up":     {gate, history.Driver, &cluster.DriverError{Driver: "d", Err: wrong}, "Violated", history.Driver},
		"it makes no volume":      {gate, history.Kubelet, &workload.ProvisionError{Boundary: history.Driver, Err: wrong}, "Violated", history.Driver},
		"a driver with a backend": {history.Header{}, history.Driver, wrong, "Violated", history.Driver},
	} {
		_, got := outcomeIn(t, c.h, Requirement{ID: "x", Claim: "claim", Boundary: c.boundary}, Outcome{Failure: c.failure})
		if got.Outcome != c.outcome || got.Boundary != c.blamed || !strings.Contains(got.Message, "want 3, got 9") {
			t.Errorf("%s: want %s by %s, got %+v", name, c.outcome, c.blamed, got)
		}
	}
}

func TestEndSpecKeepsTheEnvironmentApart(t *testing.T) {
	for name, tc := range map[string]struct {
		failure  error
		phase    history.Phase
		outcome  string
		boundary history.Boundary
	}{
		"held":        {nil, history.OK, "Held", history.Kubelet},
		"violated":    {errors.New("want 1, got 2"), history.Fail, "Violated", history.Kubelet},
		"environment": {cluster.Environment("do", errors.New("disk full")), history.Unknown, "Inconclusive", history.Harness},
		"wrapped environment": {fmt.Errorf("make: %w", &cluster.EnvironmentError{Op: "do", Err: errors.New("x")}), history.Unknown, "Inconclusive",
			history.Harness},
		"API server not reached": {fmt.Errorf("read: %w", &url.Error{Op: "Get", URL: "https://x", Err: errors.New("refused")}), history.Unknown, "Inconclusive",
			history.Harness},
		"driver": {BenchFailure(&cluster.DriverError{Driver: "d", Err: errors.New("exit 7")}), history.Fail, "Violated", history.Driver},
		"driver beside environment": {
			errors.Join(&cluster.DriverError{Driver: "d", Err: errors.New("x")}, cluster.Environment("add node n2", errors.New("no room"))),
			history.Unknown, "Inconclusive", history.Harness,
		},
		"driver joined": {errors.Join(&cluster.DriverError{Driver: "d", Err: errors.New("x")}, errors.New("undo")), history.Fail, "Violated", history.Driver},
		"no volume": {fmt.Errorf("wait: %w", errors.Join(errors.New("late"), &workload.ProvisionError{Boundary: history.Provisioner, Err: errors.New("x")})),
			history.Fail, "Violated", history.Provisioner},
		"bench":  {BenchFailure(errors.New("no namespace")), history.Unknown, "Inconclusive", history.Harness},
		"blamed": {Blame(history.Scheduler, errors.New("x")), history.Fail, "Violated", history.Scheduler},
		"blamed but of the environment": {Blame(history.Scheduler, cluster.Environment("do", errors.New("x"))), history.Unknown, "Inconclusive",
			history.Harness},
	} {
		t.Run(name, func(t *testing.T) {
			e, body := outcomeOf(t, Outcome{Failure: tc.failure})
			if e.Phase != tc.phase || body.Outcome != tc.outcome || body.Boundary != tc.boundary || e.Scope != "p1-1" {
				t.Errorf("want %s %s %s, got %s %s %s in scope %q", tc.phase, tc.outcome, tc.boundary, e.Phase, body.Outcome, body.Boundary, e.Scope)
			}
			if tc.failure != nil && body.Message == "" {
				t.Error("want the failure's text in the history")
			}
		})
	}
}

func TestEndSpecLeavesOpenWhatWasNotTried(t *testing.T) {
	e, body := outcomeOf(t, Outcome{NotTried: "the driver is down"})
	if e.Phase != history.Unknown || body.Outcome != "Inconclusive" || !strings.Contains(body.Message, "the driver is down") {
		t.Errorf("want it Inconclusive with the reason, got %s %s %q", e.Phase, body.Outcome, body.Message)
	}
}

func TestEndSpecSkipsWithAReason(t *testing.T) {
	e, body := outcomeOf(t, Outcome{Skipped: "provider kind: it takes 6 nodes"})
	if e.Phase != history.Observed || !body.Skipped || body.Outcome != "" || body.Message != "provider kind: it takes 6 nodes" {
		t.Errorf("want a skip with its reason and no outcome, got %s %+v", e.Phase, body)
	}
}

func TestDriverThatIsDownIsNotTriedAgain(t *testing.T) {
	s := &Session{Dir: t.TempDir()}
	r := Requirement{ID: "first"}
	s.NoteDriverDown(r, errors.New("the namespace cannot be made"))
	if why := s.DriverDown(); why != "" {
		t.Fatalf("want nothing said of the driver, got %q", why)
	}
	down := &cluster.DriverError{Driver: "d", Err: errors.New("exit 7")}
	s.NoteDriverDown(r, errors.Join(down, cluster.Environment("add node n2", errors.New("no room"))))
	if why := s.DriverDown(); why != "" {
		t.Errorf("the environment failed with it: want the driver tried again, got %q", why)
	}
	s.NoteDriverDown(r, BenchFailure(down))
	if why := s.DriverDown(); !strings.Contains(why, "first") {
		t.Fatalf("want the first spec that met it named, got %q", why)
	}
}

func TestBlameAndBenchFailureOfNothing(t *testing.T) {
	if Blame(history.Driver, nil) != nil || BenchFailure(nil) != nil {
		t.Error("want nil for nil")
	}
}

func TestAwait(t *testing.T) {
	b := &Bench{Session: &Session{}}
	calls := 0
	if err := b.await(t.Context(), time.Minute, func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || calls != 3 {
		t.Errorf("want success at the third look, got %v after %d", err, calls)
	}
	err := b.await(t.Context(), time.Millisecond, func(context.Context) error { return errors.New("want 1, got 2") })
	if err == nil || !strings.Contains(err.Error(), "want 1, got 2 (waited ") {
		t.Errorf("want the last answer and how long it was waited for, got %v", err)
	}
	calls = 0
	err = b.await(t.Context(), time.Hour, func(context.Context) error { calls++; return fmt.Errorf("gone: %w", ErrPermanent) })
	if !errors.Is(err, ErrPermanent) || calls != 1 {
		t.Errorf("want to give up at once on what will not change, got %v after %d looks", err, calls)
	}
}

func TestRiseWithinCountsSteps(t *testing.T) {
	bench := func(step int64, interval time.Duration) *Bench {
		s := &Session{Header: history.Header{Params: history.Params{Slack: history.Duration(2 * time.Second), Driver: history.DriverParams{
			CacheAge: history.Duration(time.Second), Step: step, StepInterval: history.Duration(interval),
		}}}}
		return &Bench{Session: s, Setup: Setup{Period: 10 * time.Second}}
	}
	for name, tc := range map[string]struct {
		bench *Bench
		want  time.Duration
	}{
		"no limit":             {bench(0, 0), 23 * time.Second},
		"steps by the period":  {bench(2, time.Second), 43 * time.Second},
		"steps by an interval": {bench(2, 30*time.Second), 83 * time.Second},
		"one step":             {bench(9, 10*time.Second), 33 * time.Second},
	} {
		if got := tc.bench.RiseWithin(2, 5); got != tc.want {
			t.Errorf("%s: want %s, got %s", name, tc.want, got)
		}
	}
}

func TestRegisterRefusesWhatOnlyARunWouldFind(t *testing.T) {
	before := requirements
	t.Cleanup(func() { requirements = before })
	good := Requirement{ID: "a", Claim: "c", Source: "s", Boundary: history.Driver, Test: func(context.Context, *Bench) {}}
	requirements = nil
	Register(good)
	if requirements[0].Limit != DefaultLimit {
		t.Errorf("want the default limit, got %s", requirements[0].Limit)
	}
	for name, change := range map[string]func(*Requirement){
		"twice":       func(*Requirement) {},
		"no id":       func(r *Requirement) { r.ID = "" },
		"no claim":    func(r *Requirement) { r.ID, r.Claim = "b", "" },
		"no source":   func(r *Requirement) { r.ID, r.Source = "b", "" },
		"no boundary": func(r *Requirement) { r.ID, r.Boundary = "b", "" },
		"no test":     func(r *Requirement) { r.ID, r.Test = "b", nil },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: want a panic", name)
				}
			}()
			r := good
			change(&r)
			Register(r)
		}()
	}
	slow := good
	slow.ID, slow.Labels = "z", []string{LabelSlow}
	Register(slow)
	if got := Requirements(); got[0].ID != "z" || got[1].ID != "a" {
		t.Errorf("want what takes longest first, got %s, %s", got[0].ID, got[1].ID)
	}
}
