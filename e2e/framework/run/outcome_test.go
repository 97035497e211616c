package run

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
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
	return endIn(t, &Session{Dir: t.TempDir(), Header: h}, r, o)
}

// endIn is outcomeOf in a run of one's own.
func endIn(t *testing.T, s *Session, r Requirement, o Outcome) (history.Event, history.Spec) {
	t.Helper()
	dir := t.TempDir()
	w, err := history.Create(dir, "r", "spec/p1")
	if err != nil {
		t.Fatal(err)
	}
	s.specs = w
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

// TestEndSpecTellsOfADriverThatEnded: what a spec saw of a driver that ended by itself in its bench is the driver's failure, with how it ended and its log.
func TestEndSpecTellsOfADriverThatEnded(t *testing.T) {
	const node, controller = "driver@p1-1-n1/p1-1.mine.headroom.test", "driver-controller@p1-1.mine.headroom.test"
	lived := map[string][]history.Component{node: {{State: "started"}, {State: "stopped"}}}
	for name, c := range map[string]struct {
		ends    map[string][]history.Component
		failure error
		limit   string
		want    []string // none: the failure is what it was
		outcome string
	}{
		"on the node": {map[string][]history.Component{node: {{State: "exited", Exit: "exit status 7"}}}, errors.New("attach 1: refused"), "",
			[]string{"driver p1-1.mine.headroom.test (node p1-1-n1): attach 1: refused\n  " + node + " ended by itself (exit status 7)", "out of luck"}, "Violated"},
		"again and again": {map[string][]history.Component{controller: {{State: "exited", Exit: "exit status 1"}, {State: "exited", Exit: "exit status 2"}}}, errors.New("x"), "",
			[]string{"(controller): x", "ended by itself (exit status 2), the last of 2 times"}, "Violated"},
		"behind the gate": {map[string][]history.Component{node: {{State: "exited", Exit: "exit status 7"}}}, errors.New("x"), history.LimitGate, []string{"exit status 7"}, "Violated"},
		"asked to":        {lived, errors.New("x"), "", nil, "Violated"},
		"another bench's": {map[string][]history.Component{"driver@p1-10-n1/p1-10.mine.headroom.test": {{State: "exited"}}}, errors.New("x"), "", nil, "Violated"},
		"another part":    {map[string][]history.Component{"kubelet@p1-1-n1": {{State: "exited"}}}, errors.New("x"), "", nil, "Violated"},
		"it held":         {map[string][]history.Component{node: {{State: "exited", Exit: "exit status 7"}}}, nil, "", nil, "Held"},
		"the environment": {map[string][]history.Component{node: {{State: "exited", Exit: "exit status 7"}}}, cluster.Environment("x", errors.New("y")), "", []string{"exit status 7"}, "Inconclusive"},
	} {
		dir := t.TempDir()
		s := &Session{Dir: dir, Header: history.Header{Params: history.Params{Driver: history.DriverParams{Limit: c.limit}}}}
		for id, states := range c.ends {
			w, err := history.Create(s.events(), "r", history.PrefixComponent+map[bool]string{true: "cell", false: "p1-1-n1"}[id == controller])
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range states {
				w.Write(history.Event{Phase: history.Observed, Key: id, Body: history.Encode(body)})
			}
			log := filepath.Join(dir, "logs", filepath.FromSlash(id)+".log")
			if err := errors.Join(w.Close(), os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, []byte("out of luck\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		_, body := endIn(t, s, Requirement{ID: "x", Claim: "claim", Boundary: history.Kubelet}, Outcome{Failure: c.failure})
		boundary := history.Kubelet
		switch {
		case c.outcome == "Inconclusive":
			boundary = history.Harness
		case len(c.want) > 0:
			boundary = history.Driver
		}
		if body.Outcome != c.outcome || body.Boundary != boundary || (len(c.want) == 0) == strings.Contains(body.Message, "ended by itself") {
			t.Errorf("%s: want %s of %s, got %+v", name, c.outcome, boundary, body)
		}
		for _, want := range c.want {
			if !strings.Contains(body.Message, want) {
				t.Errorf("%s: want %q, got %q", name, want, body.Message)
			}
		}
	}
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

// answerer is a cluster that answers, or is gone.
type answerer struct {
	cluster.Cluster
	gone error
}

func (a answerer) Answers(context.Context) error { return a.gone }

// TestEndSpecOnAClusterThatIsGone: what fails then says nothing of the product, nor of what the provider has; what held did so before.
func TestEndSpecOnAClusterThatIsGone(t *testing.T) {
	wrong := errors.New("want 1, got 2")
	for name, c := range map[string]struct {
		gone, failure error
		outcome       string
		boundary      history.Boundary
	}{
		"it lives":                {nil, wrong, "Violated", history.Kubelet},
		"it is gone":              {errors.New("no cell"), wrong, "Inconclusive", history.Harness},
		"gone, and the driver":    {errors.New("no cell"), &cluster.DriverError{Driver: "d", Err: wrong}, "Inconclusive", history.Harness},
		"gone, and not supported": {errors.New("no cell"), &cluster.UnsupportedError{Provider: "local", Why: wrong.Error()}, "Inconclusive", history.Harness},
		"gone after it held":      {errors.New("no cell"), nil, "Held", history.Kubelet},
	} {
		s := &Session{Dir: t.TempDir(), Cluster: answerer{gone: c.gone}}
		_, body := endIn(t, s, Requirement{ID: "x", Claim: "claim", Boundary: history.Kubelet}, Outcome{Failure: c.failure})
		if body.Outcome != c.outcome || body.Boundary != c.boundary || body.Skipped {
			t.Errorf("%s: want %s by %s, got %+v", name, c.outcome, c.boundary, body)
		}
		if says := strings.Contains(body.Message, wrong.Error()); says != (c.failure != nil) || strings.Contains(body.Message, "no cell") != (c.outcome == "Inconclusive") {
			t.Errorf("%s: want what failed, and that the cluster was gone, got %q", name, body.Message)
		}
	}
}

func TestEndSpecLeavesOpenWhatWasNotTried(t *testing.T) {
	e, body := outcomeOf(t, Outcome{NotTried: "the driver is down"})
	if e.Phase != history.Unknown || body.Outcome != "Inconclusive" || body.Boundary != history.Driver || !strings.Contains(body.Message, "the driver is down") {
		t.Errorf("want it Inconclusive with the reason, got %s %s %q", e.Phase, body.Outcome, body.Message)
	}
}

func TestEndSpecSkipsWithAReason(t *testing.T) {
	e, body := outcomeOf(t, Outcome{Skipped: "provider kind: it takes 6 nodes"})
	if e.Phase != history.Observed || !body.Skipped || body.Outcome != "" || body.Message != "provider kind: it takes 6 nodes" {
		t.Errorf("want a skip with its reason and no outcome, got %s %+v", e.Phase, body)
	}
}

// TestEndSpecSkipsWhatTheProviderCannot: that a provider lacks something is no failure of anybody's.
func TestEndSpecSkipsWhatTheProviderCannot(t *testing.T) {
	e, body := outcomeOf(t, Outcome{Failure: fmt.Errorf("make: %w", &cluster.UnsupportedError{Provider: "kind", Why: "it takes zones"})})
	if e.Phase != history.Observed || !body.Skipped || body.Outcome != "" || !strings.Contains(body.Message, "it takes zones") {
		t.Errorf("want a skip with its reason and no outcome, got %s %+v", e.Phase, body)
	}
}

// TestEndSpecOnTheGateHeld: what held behind the gate's limit is no failure that would have to be excused.
func TestEndSpecOnTheGateHeld(t *testing.T) {
	gate := history.Header{Params: history.Params{Driver: history.DriverParams{Limit: history.LimitGate}}}
	e, body := outcomeIn(t, gate, Requirement{ID: "x", Claim: "claim", Boundary: history.Driver}, Outcome{})
	if e.Phase != history.OK || body.Outcome != "Held" || body.Message != "" {
		t.Errorf("want it held, got %s %+v", e.Phase, body)
	}
}

// TestInapplicable says why a requirement does not apply: its features, its contrary ones, its bench and its own word, each for itself.
func TestInapplicable(t *testing.T) {
	const feature = "count-mutable"
	ran := func(v string) map[string]string {
		return map[string]string{"kube-apiserver": v, "kubelet": v, "kube-scheduler": v, "kube-controller-manager": v}
	}
	fixed := history.DriverParams{Limit: "fixed"}
	for name, c := range map[string]struct {
		r      Requirement
		ran    string
		driver history.DriverParams
		want   bool
	}{
		"no needs":                   {Requirement{}, "v1.36.3", history.DriverParams{}, false},
		"needs what is there":        {Requirement{Needs: []string{feature}}, "v1.36.3", history.DriverParams{}, false},
		"needs what is not":          {Requirement{Needs: []string{feature}}, "v1.32.13", history.DriverParams{}, true},
		"lacks what is there":        {Requirement{Lacks: []string{feature}}, "v1.36.3", history.DriverParams{}, true},
		"lacks what is not":          {Requirement{Lacks: []string{feature}}, "v1.32.13", history.DriverParams{}, false},
		"a limit that changes":       {Requirement{Setup: Setup{Changes: true}}, "v1.36.3", fixed, true},
		"a limit that specs choose":  {Requirement{Setup: Setup{Nodes: []Node{{}}}}, "v1.36.3", fixed, true},
		"any limit":                  {Requirement{Setup: Setup{Nodes: []Node{{AnyLimit: true}}}}, "v1.36.3", fixed, false},
		"by its own word":            {Requirement{Unless: func(history.Header) string { return "so" }}, "v1.36.3", history.DriverParams{}, true},
		"by its own word it applies": {Requirement{Unless: func(history.Header) string { return "" }}, "v1.36.3", history.DriverParams{}, false},
	} {
		if why := c.r.Inapplicable(history.Header{Versions: ran(c.ran), Params: history.Params{Driver: c.driver}}); (why != "") != c.want {
			t.Errorf("%s: want a reason: %t, got %q", name, c.want, why)
		}
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
		"needs":       func(r *Requirement) { r.ID, r.Needs = "b", []string{"no-such-feature"} },
		"lacks":       func(r *Requirement) { r.ID, r.Lacks = "b", []string{"no-such-feature"} },
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
