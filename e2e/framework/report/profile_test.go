package report

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
)

// allHeld is a report in which every row of every feature held, with boundaries as they are.
func allHeld() Report {
	var r Report
	ofDriver := []string{"limit-enforced", "publish-repeated", "driver-restart", "foreign-attachments", "stale-count-race", "attach-classes", "recovery-steps", "driver-old-version"}
	for _, f := range Features {
		for _, id := range f.Requirements {
			q := Requirement{ID: id, Status: Held, Boundary: history.Kubelet}
			if slices.Contains(ofDriver, id) {
				q.Boundary = history.Driver
			}
			r.Requirements = append(r.Requirements, q)
		}
		for _, name := range f.Invariants {
			i := InvariantResult{Name: name, Status: Held, Boundary: history.Driver, Verdicts: []Verdict{{Status: Held, Boundary: history.Driver}}}
			if name == "no-leaked-attachment" {
				i.Boundary = history.ControllerManager
			}
			r.Invariants = append(r.Invariants, i)
		}
	}
	return r
}

func (r *Report) requirement(id string, status Status, boundary history.Boundary) {
	for i := range r.Requirements {
		if q := &r.Requirements[i]; q.ID == id {
			q.Status, q.Boundary, q.Message = status, boundary, "because"
		}
	}
}

func (r *Report) invariant(name string, status Status, boundaries ...history.Boundary) {
	for i := range r.Invariants {
		if v := &r.Invariants[i]; v.Name == name {
			v.Status, v.Detail, v.Verdicts = status, "because", nil
			for _, b := range boundaries {
				v.Verdicts = append(v.Verdicts, Verdict{Status: status, Boundary: b, Detail: "by " + string(b)})
			}
		}
	}
}

func TestProfile(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*Report)
		quota          string
		core, extended Result // extended "" for none
		failed         []string
		skipped        string // row and reason, one of them
		unsupported    []string
	}{
		"all held": {core: ResultSuccess, extended: ResultSuccess},
		"core skipped": {change: func(r *Report) { r.requirement("churn", Skipped, history.Scheduler) }, core: ResultPartial, extended: ResultSuccess,
			skipped: "churn skipped: because"},
		"core not run": {change: func(r *Report) { r.Requirements = r.Requirements[1:] }, core: ResultPartial, extended: ResultSuccess,
			skipped: "limit-enforced it was not run"},
		"core open": {change: func(r *Report) { r.requirement("churn", Inconclusive, history.Harness) }, core: ResultPartial, extended: ResultSuccess,
			skipped: "churn inconclusive: because"},
		"core not judged": {change: func(r *Report) { r.invariant("class-is-honest", NotJudged) }, core: ResultPartial, extended: ResultSuccess,
			skipped: "class-is-honest not judged: because"},
		"core violated": {change: func(r *Report) { r.requirement("limit-enforced", Violated, history.Driver) }, core: ResultFailure, extended: ResultSuccess,
			failed: []string{"limit-enforced"}},
		"failure outranks partial": {change: func(r *Report) {
			r.requirement("limit-enforced", Violated, history.Driver)
			r.requirement("churn", Skipped, history.Scheduler)
		}, core: ResultFailure, extended: ResultSuccess, failed: []string{"limit-enforced"}},
		"violated by another": {change: func(r *Report) { r.requirement("churn", Violated, history.Scheduler) }, core: ResultPartial, extended: ResultSuccess,
			skipped: "churn violated, but by scheduler: because"},
		"invariant violated by two": {change: func(r *Report) { r.invariant("no-leaked-attachment", Violated, history.Attacher, history.Driver) },
			core: ResultFailure, extended: ResultSuccess, failed: []string{"no-leaked-attachment"}},
		"invariant of the driver violated by another": {change: func(r *Report) { r.invariant("class-is-honest", Violated, history.Harness) },
			core: ResultPartial, extended: ResultSuccess, skipped: "class-is-honest violated, but by harness: by harness"},
		"extended violated": {change: func(r *Report) { r.invariant("query-budget", Violated, history.Driver) }, core: ResultSuccess, extended: ResultFailure,
			failed: []string{"query-budget"}},
		"extended feature missing": {change: func(r *Report) { r.requirement("driver-old-version", Skipped, history.Driver) },
			core: ResultSuccess, extended: ResultSuccess, unsupported: []string{"Releases"}},
		"extended feature in part": {change: func(r *Report) { r.requirement("count-drop", Skipped, history.Kubelet) },
			core: ResultSuccess, extended: ResultPartial, skipped: "count-drop skipped: because"},
		"extended specs skipped, a claim held": {change: func(r *Report) {
			for _, f := range Features {
				for _, id := range f.Requirements {
					if f.Name == "MutableLimit" {
						r.requirement(id, Skipped, history.Kubelet)
					}
				}
			}
		}, core: ResultSuccess, extended: ResultSuccess, unsupported: []string{"MutableLimit"}},
		"extended spec not run, a claim held": {change: func(r *Report) {
			r.Requirements = slices.DeleteFunc(r.Requirements, func(q Requirement) bool { return q.ID == "aligned-periods" })
		}, core: ResultSuccess, extended: ResultPartial, skipped: "aligned-periods it was not run"},
		"tried twice, held the second time": {change: func(r *Report) {
			r.requirement("limit-enforced", Violated, history.Driver)
			r.Requirements = append(r.Requirements, Requirement{ID: "limit-enforced", Status: Held, Boundary: history.Driver})
		}, core: ResultFailure, extended: ResultSuccess, failed: []string{"limit-enforced"}},
		"tried twice, held the first time": {change: func(r *Report) {
			r.Requirements = append(r.Requirements, Requirement{ID: "limit-enforced", Status: Violated, Boundary: history.Driver})
		}, core: ResultFailure, extended: ResultSuccess, failed: []string{"limit-enforced"}},
		"extended spec violated, the others skipped": {change: func(r *Report) {
			for _, f := range Features {
				for _, id := range f.Requirements {
					if f.Name == "MutableLimit" {
						r.requirement(id, Skipped, history.Kubelet)
					}
				}
			}
			r.requirement("count-drop", Violated, history.Driver)
		}, core: ResultSuccess, extended: ResultFailure, failed: []string{"count-drop"}},
		"no status": {change: func(r *Report) { r.requirement("churn", "Fine", history.Driver) }, core: ResultPartial, extended: ResultSuccess,
			skipped: "churn NO VERDICT: because"},
		"on the gate": {quota: history.LimitGate, core: ResultPartial, extended: ResultPartial,
			skipped: "never-unbounded judged on the gate, which has the limit in the driver's place", unsupported: []string{"GradualRecovery", "Releases"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := allHeld()
			if c.change != nil {
				c.change(&r)
			}
			r.Conformance = r.conform(Conformance{Driver: "d", Quota: c.quota})
			p := r.Conformance.Profiles[0]
			if p.Core.Result != c.core {
				t.Errorf("core: want %s, got %s", c.core, p.Core.words())
			}
			got := Group{}
			if p.Extended != nil {
				got = *p.Extended
			}
			if got.Result != c.extended {
				t.Errorf("extended: want %q, got %s", c.extended, got.words())
			}
			if failed := slices.Concat(p.Core.Failed, got.Failed); !slices.Equal(failed, c.failed) {
				t.Errorf("failed: want %q, got %q", c.failed, failed)
			}
			var skipped []string
			for _, s := range slices.Concat(p.Core.Skipped, got.Skipped) {
				skipped = append(skipped, s.Row+" "+s.Reason)
			}
			if c.skipped != "" && !slices.Contains(skipped, c.skipped) {
				t.Errorf("skipped: want %q, got %q", c.skipped, skipped)
			}
			if !slices.Equal(p.UnsupportedFeatures, c.unsupported) {
				t.Errorf("unsupported: want %q, got %q", c.unsupported, p.UnsupportedFeatures)
			}
			if s := p.Core.Statistics; s.Failed != len(p.Core.Failed) || s.Skipped != len(p.Core.Skipped) {
				t.Errorf("statistics %+v do not count %q and %q", s, p.Core.Failed, p.Core.Skipped)
			}
			if !strings.HasPrefix(p.Summary, "core: "+string(c.core)+" (") {
				t.Errorf("summary %q", p.Summary)
			}
		})
	}
}

// TestProfileOnTheGate shows that of a driver behind the gate's limit only what is its own counts: the node id, and that pods run with it.
func TestProfileOnTheGate(t *testing.T) {
	r := allHeld()
	p := r.conform(Conformance{Quota: history.LimitGate}).Profiles[0]
	for _, name := range []string{"node-id-stable", "churn", "count-drop"} {
		for _, s := range slices.Concat(p.Core.Skipped, p.Extended.Skipped) {
			if s.Row == name {
				t.Errorf("%s: want it to count, got %q", name, s.Reason)
			}
		}
	}
	r.requirement("limit-enforced", Violated, history.Driver) // as when the driver does not come up
	if p := r.conform(Conformance{Quota: history.LimitGate}).Profiles[0]; p.Core.Result != ResultFailure {
		t.Errorf("a driver that fails a spec of itself: want failure, got %s", p.Core.words())
	}
}

func TestNoProfile(t *testing.T) {
	r := Report{Requirements: []Requirement{{ID: "scenario/x", Status: Held}}, Invariants: allHeld().Invariants}
	if c := r.conform(Conformance{}); c != nil {
		t.Errorf("a run that put nothing of a profile to the test: want none, got %+v", c)
	}
}

// TestReadRefusesProfiles shows that a reader believes no profile that the rows do not bear out.
func TestReadRefusesProfiles(t *testing.T) {
	r := Build(fixtures["conformance"]())
	dir := t.TempDir()
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, FileReport)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"result: partial", "result: success", "the rows do not say what the profiles say"},
		{"        skipped: ", "        skipped: 1", "the rows do not say what the profiles say"},
		{"quota: gate", "quota: backend", "the rows do not say what the profiles say"},
		{"        - row: ", "        - line: ", "field line not found"},
	} {
		changed := strings.Replace(string(text), c.from, c.to, 1)
		if changed == string(text) {
			t.Fatalf("case changes nothing: %q is not in the file", c.from)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: want %q, got %v", c.to, c.from, c.want, err)
		}
	}
}

// TestYoungerFeatures holds that a report stays good when an extended feature is added that it could not know, and that it cannot leave out a core one.
func TestYoungerFeatures(t *testing.T) {
	for name, c := range map[string]struct {
		younger func(Feature) bool
		good    bool
	}{
		"none":     {func(Feature) bool { return false }, true},
		"extended": {func(f Feature) bool { return f.Name == "DynamicVolumes" || f.Name == "Releases" }, true},
		"core":     {func(f Feature) bool { return f.Name == "Restart" }, false},
	} {
		r := allHeld()
		r.Conformance = r.conformTo(slices.DeleteFunc(slices.Clone(Features), c.younger), Conformance{Version: "v1", Quota: "backend"})
		if err := r.follows(); (err == nil) != c.good {
			t.Errorf("%s: want it good: %v, got %v", name, c.good, err)
		}
	}
}

// TestProfileWithoutRows is none that anything bears out.
func TestProfileWithoutRows(t *testing.T) {
	r := allHeld()
	r.Conformance = r.conform(Conformance{Version: "v1", Quota: "backend"})
	if err := r.follows(); err != nil {
		t.Fatal(err)
	}
	r.Requirements = nil
	if err := r.follows(); err == nil {
		t.Error("want profiles refused whose rows are gone")
	}
}

// TestDiffProfiles shows what a new release of a driver changed in its profiles.
func TestDiffProfiles(t *testing.T) {
	before, after := allHeld(), allHeld()
	after.requirement("limit-enforced", Violated, history.Driver)
	after.requirement("driver-old-version", Skipped, history.Driver)
	after.invariant("query-budget", Violated, history.Driver)
	before.Provider, after.Provider = "local", "kind"
	before.Versions, after.Versions = map[string]string{"kubelet": "v1.35.4"}, map[string]string{"kubelet": "v1.36.3"}
	before.Conformance = before.conform(Conformance{Version: "v1", Quota: "own"})
	after.Conformance = after.conform(Conformance{Version: "v2", Quota: "backend"})
	d := Diff(before.Comparable(), after.Comparable())
	if want := []Fact{{"driver version", "v1", "v2"}, {"kubelet", "v1.35.4", "v1.36.3"}, {"provider", "local", "kind"}, {"quota", "own", "backend"}}; !reflect.DeepEqual(d.Facts, want) {
		t.Errorf("facts: want %v, got %v", want, d.Facts)
	}
	var worse []string
	for _, c := range d.Worse {
		worse = append(worse, c.Kind+" "+c.ID+" "+string(c.From)+" "+string(c.To))
	}
	want := []string{"requirement driver-old-version Held Skipped", "requirement limit-enforced Held Violated", "profile AttachCapacity core success failure",
		"profile AttachCapacity extended success failure", "invariant query-budget Held Violated", "feature Releases Held Skipped"}
	if !slices.Equal(worse, want) || len(d.Better) > 0 {
		t.Errorf("worse: want %q, got %q (better: %v)", want, worse, d.Better)
	}
}
