package shrink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

func seconds(n int) *history.Duration {
	d := history.Duration(n) * history.Duration(time.Second)
	return &d
}

func onNode(n int) scenario.Target { return scenario.Target{Class: scenario.OnNode, Node: n} }

// twelve is a scenario of 12 steps on two nodes, in which each fault has its own name.
func twelve() *scenario.Scenario {
	on := onNode(2)
	fault := func(at int, name string) scenario.Step {
		return scenario.Step{At: seconds(at), Fault: &scenario.Fault{Name: name, Target: onNode(2)}}
	}
	return &scenario.Scenario{
		Topology: scenario.Layout{Nodes: []scenario.Node{{Limit: 4}, {Limit: 5}}},
		Steps: []scenario.Step{
			{Wait: &scenario.Wait{Count: &scenario.CountIs{Node: onNode(1)}}},
			{Pods: &scenario.Pods{Name: "base", Count: 4, On: &on}},
			{Wait: &scenario.Wait{Pods: &scenario.PodsAre{Name: "base"}}},
			fault(20, "a"), fault(25, "b"), {At: seconds(30), Heal: "a"}, fault(40, "c"), {At: seconds(50), Heal: "b"},
			{At: seconds(55), Delete: "base"}, fault(60, "d"), {At: seconds(70), Heal: "c"}, {Sleep: seconds(120)},
		},
		Expect: scenario.Expect{Pods: []scenario.PodsAre{{Name: "base"}}},
	}
}

// names lists the faults that a scenario injects.
func names(s *scenario.Scenario) (out []string) {
	for _, step := range s.Steps {
		if step.Fault != nil {
			out = append(out, step.Fault.Name)
		}
	}
	return out
}

// playable refuses what Load would: a heal or a deletion of nothing, a node that is not there, no step.
func playable(s *scenario.Scenario) (*scenario.Scenario, error) {
	known := map[string]bool{}
	for i, step := range s.Steps {
		switch {
		case step.Fault != nil:
			known[step.Fault.Name] = true
		case step.Pods != nil:
			known[step.Pods.Name] = true
		case step.Heal != "" && !known[step.Heal], step.Delete != "" && !known[step.Delete], step.Wait != nil && step.Wait.Pods != nil && !known[step.Wait.Pods.Name]:
			return nil, fmt.Errorf("step %d speaks of nothing", i)
		case step.At != nil && *step.At < 0, step.Sleep != nil && *step.Sleep <= 0:
			return nil, fmt.Errorf("step %d at a wrong time", i)
		}
	}
	for n := range 9 {
		if n > len(s.Topology.Nodes) && mentions(s, n) {
			return nil, fmt.Errorf("node %d of %d", n, len(s.Topology.Nodes))
		}
	}
	if len(s.Steps) == 0 || len(s.Topology.Nodes) == 0 {
		return nil, errors.New("nothing")
	}
	return s, nil
}

// needs is a trial that shows when a scenario has all of some faults.
func needs(faults ...string) func(*scenario.Scenario) bool {
	return func(s *scenario.Scenario) bool {
		return !slices.ContainsFunc(faults, func(f string) bool { return !slices.Contains(names(s), f) })
	}
}

func certain(shows func(*scenario.Scenario) bool) Trial {
	return func(_ context.Context, s *scenario.Scenario) (bool, error) { return shows(s), nil }
}

func options(t Trial) Options {
	return Options{Trial: t, Check: playable, Parallel: 1, Tries: 1, Confirm: 3}
}

func TestShrinksToWhatIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		shows func(*scenario.Scenario) bool
		want  string
	}{
		"one fault":  {needs("c"), "1. c on node/1"},
		"two faults": {needs("a", "d"), "1. a on node/1\n2. d on node/1"},
		"all faults": {needs("a", "b", "c", "d"), "1. a on node/1\n2. b on node/1\n3. c on node/1\n4. d on node/1"},
		"a fault and its heal": {func(s *scenario.Scenario) bool {
			return slices.ContainsFunc(s.Steps, func(s scenario.Step) bool { return s.Heal == "b" })
		}, "1. b on node/1\n2. heal b"},
		"pods":    {func(s *scenario.Scenario) bool { return needs("a")(s) && made(s) >= 2 }, "1. pods base\n2. a on node/1"},
		"time":    {func(s *scenario.Scenario) bool { return needs("b")(s) && lasts(s) >= 18*time.Second }, "1. at 18s b on node/1"},
		"a sleep": {func(s *scenario.Scenario) bool { return needs("b")(s) && sleeps(s) >= 30*time.Second }, "1. b on node/1\n2. sleep 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, parallel := range []int{1, 3} {
				o := options(certain(c.shows))
				o.Parallel = parallel
				r, err := Minimise(t.Context(), twelve(), o)
				if err != nil {
					t.Fatal(err)
				}
				if got := Describe(r.Scenario); got != c.want && name != "time" && name != "a sleep" {
					t.Errorf("%d at a time: want\n%s\ngot\n%s", parallel, c.want, got)
				}
				if got := len(strings.Split(Describe(r.Scenario), "\n")); got != len(strings.Split(c.want, "\n")) || !c.shows(r.Scenario) {
					t.Errorf("%d at a time: want as many steps as in\n%s\ngot\n%s", parallel, c.want, Describe(r.Scenario))
				}
				if len(r.Scenario.Topology.Nodes) != 1 && name != "pods" {
					t.Errorf("%d at a time: want one node left, got %d", parallel, len(r.Scenario.Topology.Nodes))
				}
				if r.Shown != 3 || r.Played != 3 || r.Cut {
					t.Errorf("%d at a time: want it shown 3 times of 3, got %+v", parallel, r)
				}
				if r.Trials > 60 {
					t.Errorf("%d at a time: want at most 60 trials, got %d", parallel, r.Trials)
				}
			}
		})
	}
}

// made is how many pods a scenario makes.
func made(s *scenario.Scenario) (n int) {
	for _, step := range s.Steps {
		if step.Pods != nil {
			n += max(1, step.Pods.Count)
		}
	}
	return n
}

// lasts is the time of the last step.
func lasts(s *scenario.Scenario) (d time.Duration) {
	for _, step := range s.Steps {
		if step.At != nil {
			d = time.Duration(*step.At)
		}
	}
	return d
}

func sleeps(s *scenario.Scenario) (d time.Duration) {
	for _, step := range s.Steps {
		if step.Sleep != nil {
			d += time.Duration(*step.Sleep)
		}
	}
	return d
}

// TestEachPhaseGetsSmaller shows what the phases leave: half a pause is tried, and half of the pods.
func TestEachPhaseGetsSmaller(t *testing.T) {
	r, err := Minimise(t.Context(), twelve(), options(certain(func(s *scenario.Scenario) bool { return needs("b")(s) && lasts(s) >= 11*time.Second })))
	if err != nil || lasts(r.Scenario) > 22*time.Second {
		t.Errorf("want the pause halved as long as it shows, got %s (%v)", lasts(r.Scenario), err)
	}
	r, err = Minimise(t.Context(), twelve(), options(certain(func(s *scenario.Scenario) bool { return made(s) >= 2 })))
	if err != nil || made(r.Scenario) != 2 {
		t.Errorf("want 2 pods left, got %d (%v)", made(r.Scenario), err)
	}
}

// TestFlakyTrials shows that what shows in a part of the trials shrinks where a candidate gets several, and that the result says how often.
func TestFlakyTrials(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	o := options(func(_ context.Context, s *scenario.Scenario) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return needs("a", "c")(s) && random.IntN(2) == 0, nil
	})
	o.Tries, o.Confirm = 8, 40
	r, err := Minimise(t.Context(), twelve(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := Describe(r.Scenario); got != "1. a on node/1\n2. c on node/1" {
		t.Errorf("got\n%s", got)
	}
	if r.Played != 40 || r.Shown < 8 || r.Shown > 32 {
		t.Errorf("want it shown about 20 times of 40, got %d of %d", r.Shown, r.Played)
	}
}

func TestTrialsThatTellNothingShowNothing(t *testing.T) {
	broken := errors.New("no cluster")
	n := 0
	o := options(func(_ context.Context, s *scenario.Scenario) (bool, error) {
		if n++; n%3 == 0 {
			return true, broken // whatever it says, it told nothing
		}
		return needs("c")(s), nil
	})
	o.Tries = 2
	r, err := Minimise(t.Context(), twelve(), o)
	if err != nil || Describe(r.Scenario) != "1. c on node/1" || r.Untold == 0 || r.Played+r.Untold < 3 {
		t.Errorf("got %+v (%v)\n%s", r, err, Describe(r.Scenario))
	}
	_, err = Minimise(t.Context(), twelve(), options(func(context.Context, *scenario.Scenario) (bool, error) { return false, broken }))
	var never *NotShownError
	if !errors.As(err, &never) || !errors.Is(err, broken) || never.Untold != 2 || !strings.Contains(err.Error(), "told nothing") {
		t.Errorf("want that no trial told anything, got %v", err)
	}
}

func TestWhatDoesNotShowAgainIsSaid(t *testing.T) {
	o := options(certain(func(*scenario.Scenario) bool { return false }))
	o.Tries = 4
	_, err := Minimise(t.Context(), twelve(), o)
	var never *NotShownError
	if !errors.As(err, &never) || never.Played != 5 {
		t.Errorf("want that it did not show in 5 trials, got %v", err)
	}
}

func TestTimeThatIsUpCutsTheSearch(t *testing.T) {
	trials := 0
	o := options(func(_ context.Context, s *scenario.Scenario) (bool, error) { trials++; return needs("c")(s), nil })
	o.Enough = func() bool { return trials >= 4 }
	r, err := Minimise(t.Context(), twelve(), o)
	if err != nil || !r.Cut || r.Trials != 7 || r.Shown != 3 || !needs("c")(r.Scenario) {
		t.Errorf("want 4 trials, 3 to confirm, and a smaller scenario that shows it, got %+v (%v)", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Minimise(ctx, twelve(), o); err == nil {
		t.Error("an interrupted search: want an error, got none")
	}
}

func TestNoCandidateIsPlayedTwiceOrUnplayable(t *testing.T) {
	played := map[string]int{}
	o := options(func(_ context.Context, s *scenario.Scenario) (bool, error) {
		if _, err := playable(s); err != nil {
			t.Errorf("played: %v\n%s", err, Describe(s))
		}
		played[key(s)]++
		return needs("a", "d")(s), nil
	})
	o.Confirm = 0
	if _, err := Minimise(t.Context(), twelve(), o); err != nil {
		t.Fatal(err)
	}
	for text, n := range played {
		if n > 1 {
			t.Errorf("played %d times:\n%s", n, text)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	bad := options(certain(needs()))
	bad.Tries = 0
	if _, err := Minimise(t.Context(), twelve(), bad); err == nil {
		t.Error("no tries: want an error, got none")
	}
	if _, err := Minimise(t.Context(), &scenario.Scenario{}, options(certain(needs()))); err == nil || !strings.Contains(err.Error(), "cannot be played") {
		t.Errorf("a scenario that cannot be played: got %v", err)
	}
}

// TestTheOriginalStays holds that shrinking works on copies.
func TestTheOriginalStays(t *testing.T) {
	s := twelve()
	want := key(s)
	if _, err := Minimise(t.Context(), s, options(certain(needs("c")))); err != nil {
		t.Fatal(err)
	}
	if key(s) != want {
		t.Error("the scenario to shrink was changed")
	}
}
