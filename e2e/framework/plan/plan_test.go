package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/chaos"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/invariants"
)

var update = flag.Bool("update", false, "write the golden plans anew")

// catalog is all that a plan may name.
func catalog() scenario.Catalog {
	c := scenario.Catalog{Faults: chaos.Types(), Invariants: map[string]history.Boundary{}}
	for _, i := range invariants.All() {
		c.Invariants[i.Name] = i.Boundary
	}
	c.Driver = func(string) error { return nil }
	return c
}

// text is a plan as a file.
func text(t *testing.T, o Options) []byte {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGolden holds what a seed means. A change of the algorithm or of the table changes plans that people have noted: raise Version with it.
func TestGolden(t *testing.T) {
	for name, o := range map[string]Options{
		"seed-1": {Seed: 1, Duration: 3 * time.Minute},
		"seed-7": {Seed: 7, Duration: 5 * time.Minute, Faults: []string{"quota", "network"}, Driver: "chatty"},
		"seed-8": {Seed: 8, Duration: 5 * time.Minute, Met: &Met{Name: "coverage sha256:0", Times: func(fault string, _ scenario.Class) int {
			return map[bool]int{true: 0, false: 9}[fault == "csi-garbage"]
		}}},
	} {
		path := filepath.Join("testdata", name+".yaml")
		got := text(t, o)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s: the plan is not the golden one; if it is meant to change, raise Version and run go test ./e2e/framework/plan -update", name)
		}
	}
}

func TestSameSeedSamePlan(t *testing.T) {
	one := text(t, Options{Seed: 3, Duration: 5 * time.Minute})
	if again := text(t, Options{Seed: 3, Duration: 5 * time.Minute}); string(one) != string(again) {
		t.Error("want the same plan for the same seed")
	}
	if other := text(t, Options{Seed: 4, Duration: 5 * time.Minute}); string(one) == strings.ReplaceAll(string(other), "4", "3") {
		t.Error("want another plan for another seed")
	}
}

// injection is a fault of a plan and when it is there.
type injection struct {
	*scenario.Fault
	from, to time.Duration
	healed   bool
}

// injections reads a plan back.
func injections(s *scenario.Scenario) (out []*injection) {
	byID := map[string]*injection{}
	for _, step := range s.Steps {
		at := when(step)
		switch {
		case step.Fault != nil:
			i := &injection{Fault: step.Fault, from: at, to: at}
			byID[step.Fault.ID] = i
			out = append(out, i)
		case step.Heal != "" && byID[step.Heal] != nil:
			byID[step.Heal].to, byID[step.Heal].healed = at, true
		}
	}
	return out
}

// about is the part of its target that a fault acts on.
func about(i *injection) string {
	switch i.Name {
	case "quota-drop", "quota-raise", "quota-flap", "foreign-attachment":
		return "limit"
	case "quota-outage":
		return "backend"
	case "network-half":
		if i.Target.Class == scenario.Backend || i.Target.Class == scenario.OnNode {
			return "backend"
		}
	}
	return "part"
}

// clash says why two faults must not be there at the same time; "" when they may. It knows nothing of the planner's parts.
func clash(a, b *injection) string {
	shared := func(c scenario.Class) bool { return c == scenario.APIServer || c == scenario.Etcd }
	switch {
	case shared(a.Target.Class) || shared(b.Target.Class):
		return "nothing can be healed while the API server does not answer"
	case (a.Name == "driver-rollback" || b.Name == "driver-rollback") && a.Target.Node == b.Target.Node:
		return "a rollback changes the limit of its node, and what the backend says of it"
	case about(a) != about(b):
	case a.Target.Node > 0 && a.Target.Node == b.Target.Node:
		return "they act on the same " + about(a) + " of the same node"
	case a.Target == b.Target, about(a) == "backend" && (a.Target.Node == 0 || b.Target.Node == 0):
		return "they act on the same thing"
	}
	return ""
}

// problems lists what is wrong with a plan.
func problems(s *scenario.Scenario) (out []string) {
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	all := injections(s)
	outages, last := 0, time.Duration(0)
	for n, a := range all {
		last = max(last, a.to)
		if !a.healed {
			note("%s is never healed", a.ID)
		}
		if a.to-a.from > longest {
			note("%s lasts %s", a.ID, a.to-a.from)
		}
		if a.Target.Class == scenario.APIServer || a.Target.Class == scenario.Etcd {
			if outages++; a.to-a.from > 5*time.Second {
				note("%s: an outage of %s", a.ID, a.to-a.from)
			}
		}
		at := 1
		for _, b := range all[:n] {
			if b.to > a.from {
				at++
			}
			if why := clash(a, b); b.to >= a.from && why != "" {
				note("%s and %s at once: %s", b.ID, a.ID, why)
			}
		}
		if at > together {
			note("%d faults at once at %s", at, a.from)
		}
	}
	if outages > 1 {
		note("%d outages of the control plane", outages)
	}
	if len(all) == 0 {
		note("no fault")
	}
	pods, node := 0, map[string]int{}
	for i, step := range s.Steps {
		if i > 0 && when(step) < when(s.Steps[i-1]) && step.Sleep == nil {
			note("step %d is not in order", i+1)
		}
		switch {
		case step.Pods != nil && step.At != nil:
			pods++
			if step.Pods.On != nil {
				node[step.Pods.Name] = step.Pods.On.Node
			}
		case step.Delete != "":
			for _, a := range all {
				if n := node[step.Delete]; a.from <= when(step) && a.to > when(step) && a.Target.Node > 0 && (n == 0 || n == a.Target.Node) &&
					!strings.HasPrefix(a.Name, "quota-") && a.Name != "foreign-attachment" && about(a) != "backend" {
					note("%s keeps %q from being deleted at %s", a.ID, step.Delete, when(step))
				}
			}
		}
	}
	if pods == 0 {
		note("no workload among the faults")
	}
	if end := s.Steps[len(s.Steps)-1]; end.Sleep == nil || time.Duration(*end.Sleep) < quiet {
		note("no quiet end")
	}
	if end := time.Duration(s.Limit) - limit - quiet; last > end {
		note("a fault is there until %s, after the %s of all faults", last, end)
	}
	return out
}

// TestPlansKeepTheirLimits looks at many plans, and each can be played.
func TestPlansKeepTheirLimits(t *testing.T) {
	known, used := catalog(), map[string]int{}
	for seed := int64(1); seed <= 120; seed++ {
		o := Options{Seed: seed, Duration: []time.Duration{Shortest, 3 * time.Minute, 5 * time.Minute, Longest}[seed%4]}
		if group := Groups(); seed%3 == 0 {
			o.Faults = []string{group[int(seed/3)%len(group)]}
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems(s) {
			t.Errorf("seed %d: %s", seed, p)
		}
		for _, i := range injections(s) {
			used[i.Name]++
		}
		b, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scenario.Load("plan.yaml", b, known); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	for _, f := range Faults() {
		if used[f] == 0 {
			t.Errorf("fault %q is in none of 120 plans", f)
		}
	}
}

// TestProblemsAreSeen shows that each limit is noticed when it is broken.
func TestProblemsAreSeen(t *testing.T) {
	at := func(seconds int) *history.Duration {
		d := history.Duration(time.Duration(seconds) * time.Second)
		return &d
	}
	target := func(text string) (to scenario.Target) {
		if err := to.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	fault := func(seconds int, id, name, on string) scenario.Step {
		return scenario.Step{At: at(seconds), Fault: &scenario.Fault{ID: id, Name: name, Target: target(on)}}
	}
	heal := func(seconds int, id string) scenario.Step { return scenario.Step{At: at(seconds), Heal: id} }
	pods := scenario.Step{At: at(12), Pods: &scenario.Pods{Name: "p"}}
	calm := history.Duration(quiet)
	end := scenario.Step{Sleep: &calm}
	for want, steps := range map[string][]scenario.Step{
		"":                     {pods, fault(12, "a", "quota-drop", "node/1"), fault(13, "b", "quota-drop", "node/2"), heal(20, "a"), heal(21, "b"), end},
		"no fault":             {pods, end},
		"a is never healed":    {pods, fault(12, "a", "quota-drop", "node/1"), end},
		"a lasts 50s":          {pods, fault(12, "a", "quota-drop", "node/1"), heal(62, "a"), end},
		"an outage of 8s":      {pods, fault(12, "a", "component-pause", "etcd"), heal(20, "a"), end},
		"2 outages":            {pods, fault(12, "a", "component-pause", "etcd"), heal(14, "a"), fault(20, "b", "component-pause", "etcd"), heal(22, "b"), end},
		"same limit":           {pods, fault(12, "a", "quota-drop", "node/1"), fault(13, "b", "foreign-attachment", "node/1"), heal(20, "a"), heal(21, "b"), end},
		"same part":            {pods, fault(12, "a", "component-kill", "kubelet@1"), fault(13, "b", "driver-surge", "driver@1"), heal(20, "a"), heal(21, "b"), end},
		"a rollback changes":   {pods, fault(12, "a", "driver-rollback", "driver@1"), fault(13, "b", "quota-drop", "node/1"), heal(20, "a"), heal(21, "b"), end},
		"the same thing":       {pods, fault(12, "a", "quota-outage", "backend"), fault(13, "b", "quota-outage", "node/1"), heal(20, "a"), heal(21, "b"), end},
		"nothing can be heal":  {pods, fault(12, "a", "quota-drop", "node/1"), fault(13, "b", "component-pause", "etcd"), heal(14, "b"), heal(20, "a"), end},
		"no workload":          {fault(12, "a", "quota-drop", "node/1"), heal(20, "a"), end},
		"no quiet end":         {pods, fault(12, "a", "quota-drop", "node/1"), heal(20, "a")},
		"step 3 is not in ord": {pods, fault(13, "a", "quota-drop", "node/1"), heal(12, "a"), end},
		"after the 30s":        {pods, fault(12, "a", "quota-drop", "node/1"), heal(31, "a"), end},
		`keeps "p" from`:       {pods, fault(12, "a", "component-kill", "kubelet@1"), {At: at(13), Delete: "p"}, heal(20, "a"), end},
		"4 faults at once": {pods, fault(12, "a", "quota-drop", "node/1"), fault(12, "b", "quota-drop", "node/2"), fault(12, "c", "csi-slow", "driver@1"),
			fault(12, "d", "csi-slow", "driver@2"), heal(20, "a"), heal(20, "b"), heal(20, "c"), heal(20, "d"), end},
	} {
		s := &scenario.Scenario{Limit: history.Duration(limit + quiet + 30*time.Second), Steps: steps}
		if want == "a lasts 50s" {
			s.Limit += history.Duration(time.Minute)
		}
		got := strings.Join(problems(s), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// TestEveryFaultIsInTheTable holds the table to the faults that there are.
func TestEveryFaultIsInTheTable(t *testing.T) {
	for _, name := range chaos.Names() {
		if !slices.Contains(Faults(), name) {
			t.Errorf("fault %q is not in the table of plans", name)
		}
	}
	for _, r := range table {
		f, ok := chaos.Find(r.fault)
		if !ok {
			t.Errorf("no fault %q", r.fault)
			continue
		}
		for _, c := range r.classes {
			if !slices.Contains(f.Targets, c) {
				t.Errorf("fault %q does not act on %s", r.fault, c)
			}
		}
		if r.weight < 1 || r.most != 0 && r.most < r.least || r.most > longest || r.most > shortest && r.least > shortest {
			t.Errorf("fault %q: weight %d, from %s to %s", r.fault, r.weight, r.least, r.most)
		}
	}
}

// TestDocs holds the table of docs/chaos.md to the table of plans.
func TestDocs(t *testing.T) {
	const file, head = "../../../docs/chaos.md", "|---|---|---|---|---|\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), head)
	_, rest, ends := strings.Cut(after, "\n## ")
	if !found || !ends {
		t.Fatalf("%s: want a table of faults with a heading after it", file)
	}
	var rows strings.Builder
	for _, r := range table {
		var on []string
		for _, c := range r.classes {
			on = append(on, string(c))
		}
		stays, weight := "0s", fmt.Sprint(r.weight)
		if r.most > 0 {
			stays = fmt.Sprintf("%s to %s", r.least, r.most)
		}
		if r.asked {
			weight += ", asked"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | %s |\n", r.fault, r.group, strings.Join(on, ", "), stays, weight)
	}
	want := before + head + rows.String() + "\n## " + rest
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s: the table is not that of plans: run go test ./e2e/framework/plan -run TestDocs -update", file)
	}
	for _, figure := range []string{fmt.Sprintf("%d faults at once", together), longest.String() + " each", quiet.String() + " are quiet", Shortest.String() + " at least"} {
		if !strings.Contains(string(text), figure) {
			t.Errorf("%s: want %q in it", file, figure)
		}
	}
}

func TestWhatWasMetLeastIsPreferred(t *testing.T) {
	count := func(met *Met) (n int) {
		for seed := int64(1); seed <= 20; seed++ {
			s, err := New(Options{Seed: seed, Duration: 10 * time.Minute, Met: met})
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range injections(s) {
				if i.Name == "driver-surge" {
					n++
				}
			}
		}
		return n
	}
	met := &Met{Name: "a file", Times: func(fault string, _ scenario.Class) int {
		return map[bool]int{true: 0, false: 5}[fault == "driver-surge"]
	}}
	if without, with := count(nil), count(met); with < 2*without {
		t.Errorf("a fault that was never met: want it at least twice as often, got %d times, %d without", with, without)
	}
	s, err := New(Options{Seed: 1, Duration: Shortest, Met: met})
	if err != nil || !strings.Contains(s.Metadata.Doc, "a file") {
		t.Errorf("want the plan to say what it prefers by, got %v, %v", s, err)
	}
}

// TestOneValueOfAFault shows that a plan can be asked for some values of a fault's main parameter, and that a name of the whole fault has them all.
func TestOneValueOfAFault(t *testing.T) {
	modes := func(faults ...string) (seen []string) {
		for seed := int64(1); seed <= 20; seed++ {
			s, err := New(Options{Seed: seed, Duration: Shortest, Faults: faults})
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range injections(s) {
				var p struct{ Mode, Lost string }
				if err := i.Params.Decode(&p); err != nil {
					t.Fatal(err)
				}
				if v := i.Name + ":" + p.Mode + p.Lost; !slices.Contains(seen, v) {
					seen = append(seen, v)
				}
			}
		}
		slices.Sort(seen)
		return seen
	}
	asked := []string{"network-half:answers", "quota-outage:slow", "quota-outage:throttle"}
	if got := modes(asked...); !slices.Equal(got, asked) {
		t.Errorf("want %q, got %q", asked, got)
	}
	if got := modes("quota-outage:throttle", "quota-outage"); len(got) != 11 {
		t.Errorf("want all modes, got %q", got)
	}
}

// TestManyNodesAndALongEnd shows plans that are larger than they need be.
func TestManyNodesAndALongEnd(t *testing.T) {
	o := Options{Seed: 1, Nodes: 18, Quiet: 4 * time.Minute}
	o.Duration = o.Shortest()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Steps[len(s.Steps)-1].Sleep; len(s.Topology.Nodes) != 18 || *got != history.Duration(o.Quiet) || !strings.Contains(s.Metadata.Doc, "then 4m0s in which") {
		t.Errorf("want 18 nodes and 4m0s, got %d and %v: %s", len(s.Topology.Nodes), got, s.Metadata.Doc)
	}
	for _, i := range injections(s) {
		if i.to > o.Duration-o.Quiet {
			t.Errorf("%s: want it healed before the quiet end, got %s", i.ID, i.to)
		}
	}
}

func TestBadOptions(t *testing.T) {
	good := Options{Seed: 1, Duration: 5 * time.Minute}
	for want, edit := range map[string]func(*Options){
		`no fault or group "quotas"; groups: quota, network`: func(o *Options) { o.Faults = []string{"network", "quotas"} },
		"seed 0: want 1 or more":                             func(o *Options) { o.Seed = 0 },
		"duration 1m0s: want whole seconds from 2m44s":       func(o *Options) { o.Duration = time.Minute },
		"duration 1h0m0s":                                    func(o *Options) { o.Duration = time.Hour },
		"duration 5m0.5s":                                    func(o *Options) { o.Duration += 500 * time.Millisecond },
		"1 nodes: want 2 to 24":                              func(o *Options) { o.Nodes = 1 },
		"25 nodes":                                           func(o *Options) { o.Nodes = 25 },
		"a quiet end of 1m0s: want whole seconds, and 2m2s":  func(o *Options) { o.Quiet = time.Minute },
		"a quiet end of 3m0.5s":                              func(o *Options) { o.Quiet = 3*time.Minute + 500*time.Millisecond },
		"whole seconds from 5m42s to 20m0s, of which the last 5m0s are quiet":   func(o *Options) { o.Quiet = 5 * time.Minute },
		`fault "quota-outage" has no mode "flaky"; there are: refuse, hang`:     func(o *Options) { o.Faults = []string{"quota-outage:flaky"} },
		`no fault or group "quota-drop:1"; groups: quota, network`:              func(o *Options) { o.Faults = []string{"quota-drop:1"} },
		`fault "network-half" has no lost "both"; there are: answers, requests`: func(o *Options) { o.Faults = []string{"network-half:both"} },
	} {
		o := good
		edit(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
