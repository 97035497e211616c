package invariants

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// fixed is a checker that answers what it is told, or panics where it is told to.
type fixed struct {
	verdicts []Verdict
	panicAt  string
}

func (f fixed) Observe(history.Event) {
	if f.panicAt == "observe" {
		panic("on purpose")
	}
}

func (f fixed) Finish() []Verdict {
	if f.panicAt == "finish" {
		panic("on purpose")
	}
	return f.verdicts
}

func stub(f fixed) Invariant {
	return Invariant{Name: "stub", Boundary: history.Driver, Needs: []string{"backend", "csi/"}, New: func(Params) Checker {
		if f.panicAt == "new" {
			panic("on purpose")
		}
		return f
	}}
}

// TestJudgeOnDriversOfTheirOwn leaves out what only the quota backend could tell, where it is not what attaches.
func TestJudgeOnDriversOfTheirOwn(t *testing.T) {
	violated := stub(fixed{verdicts: []Verdict{{Status: Violated, Subject: "n1"}}})
	attaches := violated
	attaches.Attaches = true
	for _, c := range []struct {
		limit string
		inv   Invariant
		want  Status
	}{
		{"", attaches, Violated}, {history.LimitGate, attaches, Violated},
		{history.LimitStart, attaches, ""}, {"fixed", attaches, ""}, {"own", attaches, ""},
		{"fixed", violated, Violated},
	} {
		h := history.Header{Params: history.Params{Driver: history.DriverParams{Limit: c.limit}}}
		got := Judge(func(func(history.Event, error) bool) {}, h, c.inv).Results[0]
		if got.Status() != c.want || c.want == "" && !strings.Contains(got.Note, "the driver attaches by itself (quota "+c.limit+")") {
			t.Errorf("limit %q, attaches %t: want %q, got %q, note %q", c.limit, c.inv.Attaches, c.want, got.Status(), got.Note)
		}
	}
	for _, inv := range All() {
		if inv.Attaches != (inv.Name == "attach-rechecked" || inv.Name == "class-is-honest" || inv.Name == "publish-idempotent") {
			t.Errorf("%s: Attaches is %t", inv.Name, inv.Attaches)
		}
	}
}

func TestJudgeLowersWhatItsSourcesCannotSupport(t *testing.T) {
	held, violated := Verdict{Status: Held, Subject: "n1"}, Verdict{Status: Violated, Subject: "n1"}
	for _, c := range []struct {
		name, lost, missing string
		verdicts            []Verdict
		want                Status
	}{
		{"nothing lost", "", "", []Verdict{held}, Held},
		{"a needed source", "backend", "", []Verdict{held}, Inconclusive},
		{"below a needed prefix", "csi/n2", "", []Verdict{held}, Inconclusive},
		{"another source", "audit", "", []Verdict{held}, Held},
		{"declared missing", "", "csi/", []Verdict{held}, Inconclusive},
		{"declared missing, another", "", "audit", []Verdict{held}, Held},
		{"proven", "backend", "", []Verdict{violated}, Violated},
		{"proven beside held", "backend", "", []Verdict{held, violated}, Violated},
		{"no verdict, lost", "backend", "", nil, Inconclusive},
		{"no verdict, never there", "", "backend", nil, ""},
		{"a status that is none", "", "", []Verdict{{}}, Inconclusive},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript()
			s.quota(0, 1, 0)
			if c.lost != "" {
				s.lose(1, c.lost)
			}
			if c.missing != "" {
				s.header.Missing = map[string]string{c.missing: "not in this cluster"}
			}
			r := s.judge(stub(fixed{verdicts: c.verdicts})).Results[0]
			if got := r.Status(); got != c.want {
				t.Errorf("want %q, got %q: %+v", c.want, got, r)
			}
			if c.want == "" && r.Note == "" {
				t.Error("want a note that says why nothing was judged")
			}
		})
	}
}

func TestEveryInvariantIsLoweredByAGapInEachNeed(t *testing.T) {
	for _, g := range append(driverGoldens, kubeletGoldens...) {
		if g.file != "held" && !strings.HasPrefix(g.file, "held-cache") && !strings.HasPrefix(g.file, "held-full") && g.file != "held-outage-at-registration" {
			continue
		}
		inv, _ := Find(g.invariant)
		for _, need := range inv.Needs {
			s := newScript()
			g.write(s)
			if strings.HasSuffix(need, "/") {
				need += "x"
			}
			s.lose(500, need)
			// The gap stands at the end of the run: it must not lengthen the run that the bounds are judged in.
			s.raw[len(s.raw)-1].At = 100 * time.Second
			if got := s.judge(inv).Results[0].Status(); got != Inconclusive {
				t.Errorf("%s/%s with a gap in %s: want Inconclusive, got %q", g.invariant, g.file, need, got)
			}
		}
	}
}

func TestPanickingCheckerNeverHolds(t *testing.T) {
	for _, at := range []string{"new", "observe", "finish"} {
		s := newScript()
		s.quota(0, 8, 0)
		s.info(30, 8)
		within, _ := Find("answer-within-quota")
		rep := s.judge(stub(fixed{verdicts: []Verdict{{Status: Held}}, panicAt: at}), within)
		v := rep.Results[0].Verdicts
		if len(v) != 1 || v[0].Status != Inconclusive || v[0].Boundary != history.Harness || !strings.Contains(v[0].Detail, "on purpose") {
			t.Errorf("panic at %s: want one Inconclusive of the harness that says so, got %+v", at, v)
		}
		if got := rep.Results[1].Status(); got != Held {
			t.Errorf("panic at %s: want the other invariant judged as ever, got %q", at, got)
		}
	}
}

func TestEmptyHistoryJudgesNothing(t *testing.T) {
	rep := newScript().judge()
	if len(rep.Results) != len(All()) || rep.Status() != "" {
		t.Errorf("want a result for each invariant and no status, got %+v", rep)
	}
	for _, r := range rep.Results {
		if len(r.Verdicts) > 0 {
			t.Errorf("%s: want no verdicts, got %+v", r.Name, r.Verdicts)
		}
	}
}

func TestUnreadableHistoryHoldsNothing(t *testing.T) {
	s := newScript()
	s.quota(0, 8, 0)
	s.info(30, 8)
	broken := errors.New("line 7 is no event")
	rep := Judge(func(yield func(history.Event, error) bool) {
		for _, e := range s.events() {
			if !yield(e, nil) {
				return
			}
		}
		yield(history.Event{}, broken)
	}, s.header)
	if !errors.Is(rep.Err, broken) || rep.Status() != Inconclusive {
		t.Fatalf("want the error and Inconclusive, got %v, %q", rep.Err, rep.Status())
	}
	for _, r := range rep.Results {
		if r.Status() != Inconclusive {
			t.Errorf("%s: want Inconclusive, got %q", r.Name, r.Status())
		}
	}
}

func TestBodyThatDoesNotDecodeIsAGap(t *testing.T) {
	s := newScript()
	s.quota(0, 8, 0)
	s.info(30, 8)
	s.raw = append(s.raw, history.Event{At: seconds(31), Source: "csi/n1", Phase: history.OK, Key: "NodeGetInfo", Body: []byte(`{"maxVolumes":"many"}`)})
	within, _ := Find("answer-within-quota")
	if got := s.judge(within).Results[0].Status(); got != Inconclusive {
		t.Errorf("want Inconclusive, got %q", got)
	}
}

// TestCheckersAloneAgreeWithJudge runs each golden's checker without Judge: the contract of Checker does not depend on the shared model.
func TestCheckersAloneAgreeWithJudge(t *testing.T) {
	for _, g := range append(driverGoldens, kubeletGoldens...) {
		if strings.Contains(g.file, "lost") || strings.Contains(g.file, "gap") {
			continue
		}
		s := newScript()
		g.write(s)
		inv, _ := Find(g.invariant)
		c := inv.New(s.header)
		for _, e := range s.events() {
			c.Observe(e)
		}
		want, got := fmt.Sprint(s.judge(inv).Results[0].Verdicts), fmt.Sprint(c.Finish())
		if want != got {
			t.Errorf("%s/%s: want %s, got %s", g.invariant, g.file, want, got)
		}
	}
}

// TestImports holds that verdicts are made from histories, and from what the table of versions says of those that ran, which is data.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "headroom/e2e/invariants/...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	allowed := map[string]bool{
		"headroom/e2e/invariants": true, "headroom/e2e/invariants/model": true, "headroom/e2e/framework/history": true,
		"headroom/e2e/framework/versions": true, "headroom/kind-configs": true, "headroom/e2e/framework/strict": true, "go.yaml.in/yaml/v3": true,
	}
	for _, p := range strings.Fields(string(out)) {
		// encoding/json/v2 is a module before Go 1.27.
		if !allowed[p] && !strings.HasPrefix(p, "github.com/go-json-experiment/json") {
			t.Errorf("want only the standard library, history and the table of versions, got %s", p)
		}
	}
}

// FuzzJudge: whatever the events, Judge answers, and never panics out.
func FuzzJudge(f *testing.F) {
	for _, g := range append(driverGoldens, kubeletGoldens...) {
		s := newScript()
		g.write(s)
		for _, e := range s.events() {
			f.Add(int64(e.At), e.Source, string(e.Phase), e.Op, e.Rev, e.Node, e.Key, []byte(e.Body), int64(2e9))
		}
	}
	base := newScript()
	waiting(base)
	f.Fuzz(func(t *testing.T, at int64, source, phase, op string, rev int64, node, key string, body []byte, slack int64) {
		s := newScript()
		s.header.Params.Slack = history.Duration(slack)
		s.raw = append(s.raw, base.raw...)
		for i := range 3 {
			s.raw = append(s.raw, history.Event{
				At: time.Duration(at), Source: source, Phase: history.Phase(phase), Op: op, Rev: rev + int64(i%2), Node: node, Key: key, Body: body,
			})
		}
		for _, r := range s.judge().Results {
			for _, v := range r.Verdicts {
				if strings.Contains(v.Detail, "panicked") {
					t.Errorf("%s: %s", r.Name, v.Detail)
				}
			}
		}
	})
}

// BenchmarkJudge judges 100,000 events of 100 nodes; the time per event must not grow with the length.
func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			events, h := long(n)
			for b.Loop() {
				if rep := Judge(sequence(events), h); rep.Events != len(events) {
					b.Fatal(rep.Err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
		})
	}
}

// long makes a history of about n events: ticks with writes, publishes with decisions, watch events, heartbeats.
func long(n int) ([]history.Event, history.Header) {
	s := newScript()
	s.quota(0, 1000, 0)
	ticking(s)
	for i, at := 0, 11.5; len(s.raw) < n; i, at = i+1, at+10 {
		s.info(at, int64(8+i%2))
		s.writes(at+0.3, int64(100+i), node, "update", "", entries(int32(8+i%2)))
		volume := fmt.Sprint("v", i)
		s.publish(at+1, volume, 8)
		s.attach(at+1.02, volume, refused(history.ReasonFull))
		s.beat(at+2, 0)
	}
	return s.events(), s.header
}

// TestJudgeLongHistory keeps the benchmark's history meaningful: all of it is judged and holds.
func TestJudgeLongHistory(t *testing.T) {
	events, h := long(20_000)
	rep := Judge(sequence(events), h)
	for _, r := range rep.Results {
		switch r.Name {
		case "asks-every-period", "answer-to-csinode", "class-is-honest", "answer-within-quota", "one-writer":
			if r.Status() != Held {
				t.Errorf("%s: want Held, got %+v", r.Name, r.Verdicts)
			}
		}
	}
}
