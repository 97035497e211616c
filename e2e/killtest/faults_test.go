package killtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/chaos"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/scenario"
)

var faultsFlag = flag.Bool("kill.faults", false, "kill a run in the middle of each fault")

// phaseFault is where a fault is on, or is being injected or healed. It is no phase of the runs of TestKill, whose specs have faults of their own.
const phaseFault = "fault"

// faultScenarios are the scenarios in which each fault bites and heals.
const faultScenarios = "../../fixtures/scenarios/faults-*.yaml"

// states are those of a fault in which a run is killed: while it is being injected, while it is on, and while it is being healed.
var states = []string{"inject", "effective", "heal"}

// TestKillFaults kills a run in the middle of each fault: nothing that the fault made may be left. It takes a quarter of an hour and is asked
// for by a flag; TestKill has some faults each time.
func TestKillFaults(t *testing.T) {
	if !*faultsFlag {
		t.Skip("-kill.faults is not set: this test kills a cluster in each fault, which takes a quarter of an hour (make fault-kills)")
	}
	headroom, seed := command(t), chosenSeed()
	plan := faultPlan(t, seed)
	results := carryOut(t, headroom, plan, seed)
	for _, r := range results {
		if r.components == 0 {
			t.Errorf("%s: want the control plane alive when it was killed", r.at)
		}
	}
	if len(results) != len(plan) {
		t.Errorf("want %d kills, got %d", len(plan), len(results))
	}
	registryIsTidied(t, headroom)
}

// faultPlan has a kill in each fault of the scenarios. Fault by fault the state and the victim rotate; where they begin is the seed's choice.
func faultPlan(t *testing.T, seed int64) []kill {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	dir, first := t.TempDir(), rng.IntN(len(states))
	var out []kill
	for _, s := range loadFaults(t) {
		for i, step := range s.Steps {
			if step.Fault == nil {
				continue
			}
			n := first + len(out)
			state, victim := states[n%len(states)], []string{victimCommand, victimCell}[n/len(states)%2]
			if state == "heal" && !slices.ContainsFunc(s.Steps, func(h scenario.Step) bool { return h.Heal == step.Fault.Key() }) {
				state = "effective" // it is over at once
			}
			k := kill{phase: phaseFault, victim: victim, driver: reference, at: fault(step.Fault.Name, state), choice: rng.IntN(1 << 16)}
			k.look, k.over = k.at, runClosed
			switch state {
			case "effective":
				k.delay = time.Duration(rng.IntN(2000)) * time.Millisecond
			default: // many a fault is injected or healed within milliseconds
				k.delay = time.Duration(rng.IntN(20)) * time.Millisecond
			}
			k.scenario = alone(t, dir, s, i)
			out = append(out, k)
		}
	}
	return out
}

// someFaults are a few of the plan, other ones with each seed, that need no executables of other versions.
func someFaults(t *testing.T, seed int64) []kill {
	t.Helper()
	all := slices.DeleteFunc(faultPlan(t, seed), func(k kill) bool { return strings.HasPrefix(k.at.name, "version-swap ") })
	rng := rand.New(rand.NewPCG(uint64(seed), 2))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:kills-1]
}

// runClosed is the moment when nothing more of the run is recorded.
var runClosed = closed("the run had been recorded", "fault.jsonl")

// fault is the moment when a fault came to a state.
func fault(name, state string) instant {
	return instant{name: name + " " + state, file: "fault.jsonl", match: func(e history.Event) bool {
		var f history.Fault
		return e.Key == name && e.Decode(&f) == nil && f.State == state
	}}
}

func loadFaults(t *testing.T) []*scenario.Scenario {
	t.Helper()
	files, err := filepath.Glob(faultScenarios)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: want scenarios (%v)", faultScenarios, err)
	}
	var out []*scenario.Scenario
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Load(file, data, run.Catalog())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// alone writes the scenario with one of its faults only, on a cluster with a pod that runs, and returns the file. The fault stays for a while, long enough
// to be killed in it, and then is healed if it has to be.
func alone(t *testing.T, dir string, s *scenario.Scenario, i int) string {
	t.Helper()
	f := s.Steps[i].Fault
	c := *s
	c.Metadata.Name = fmt.Sprintf("%s-%d", s.Metadata.Name, i)
	c.Metadata.Doc = "A run that is killed in the middle of " + f.Name + "."
	c.Expect.Pods = []scenario.PodsAre{{Name: "attached", Are: "running"}}
	hold, rest := history.Duration(4*time.Second), history.Duration(time.Minute)
	within := s.Steps[0] // the count of a node that has just come
	c.Steps = []scenario.Step{within, {Pods: &scenario.Pods{Name: "attached"}}}
	c.Steps = append(c.Steps, scenario.Step{Wait: &scenario.Wait{Within: rest, Pods: &scenario.PodsAre{Name: "attached", Are: "running"}}}, s.Steps[i], scenario.Step{Sleep: &hold})
	if slices.ContainsFunc(s.Steps, func(h scenario.Step) bool { return h.Heal == f.Key() }) {
		c.Steps = append(c.Steps, scenario.Step{Heal: f.Key()})
	}
	c.Steps = append(c.Steps, scenario.Step{Sleep: &rest})
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, c.Metadata.Name+".yaml")
	if _, err := scenario.Load(file, text, run.Catalog()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFaultPlanCoversFaults holds the plan to all faults, their states, and what is killed.
func TestFaultPlanCoversFaults(t *testing.T) {
	seen, instants := map[string]bool{}, map[string]bool{}
	for seed := int64(1); seed <= 10; seed++ {
		faults := map[string]bool{}
		for _, k := range faultPlan(t, seed) {
			instants[k.at.name+" "+k.victim] = true
			for _, name := range chaos.Names() {
				for _, state := range states {
					if k.at.name == name+" "+state {
						faults[name], seen[state+" "+k.victim] = true, true
					}
				}
			}
		}
		for _, name := range chaos.Names() {
			if !faults[name] {
				t.Errorf("seed %d: no kill in %s", seed, name)
			}
		}
	}
	for _, state := range states {
		for _, v := range []string{victimCommand, victimCell} {
			if !seen[state+" "+v] {
				t.Errorf("10 seeds: want a kill of the %s while a fault is at %q", v, state)
			}
		}
	}
	if len(instants) <= len(chaos.Names()) {
		t.Errorf("10 seeds: want each fault killed in several states, got %d instants of %d faults", len(instants), len(chaos.Names()))
	}
}
