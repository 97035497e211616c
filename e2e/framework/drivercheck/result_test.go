package drivercheck

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/report"
)

// all has every case held.
func all() *recorder {
	r := newRecorder()
	for _, c := range checks {
		for _, name := range c.Cases {
			r.held(caseID{c.ID, name}, "fine")
		}
	}
	return r
}

func TestConclusion(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*recorder)
		want   Conclusion
		exit   int
	}{
		"all held":              {func(*recorder) {}, Success, 0},
		"violated":              {func(r *recorder) { r.violated(caseOver, "x") }, Failure, 1},
		"extended violated":     {func(r *recorder) { r.violated(caseSteps, "x") }, Failure, 1},
		"inconclusive":          {func(r *recorder) { r.inconclusive(caseOver, "x") }, Partial, 4},
		"extended inconclusive": {func(r *recorder) { r.inconclusive(caseBudget, "x") }, Partial, 4},
		"one core case skipped": {func(r *recorder) {
			delete(r.cases, "never-unbounded")
			r.skipped(caseOutage, "x")
			r.held(caseHuge, "")
		}, Partial, 4},
		"not reached":            {func(r *recorder) { delete(r.cases, "identity") }, Partial, 4},
		"does not apply":         {func(r *recorder) { delete(r.cases, "total-not-remaining"); r.unfit("x", caseTotal) }, Success, 0},
		"extended skipped":       {func(r *recorder) { delete(r.cases, "query-budget"); r.skipped(caseBudget, "x") }, Success, 0},
		"violated, then held":    {func(r *recorder) { r.violated(caseOver, "x"); r.held(caseOver, "y") }, Failure, 1},
		"violated and unfit":     {func(r *recorder) { r.violated(caseOver, "x"); r.unfit("y", caseOver) }, Failure, 1},
		"a status that is none":  {func(r *recorder) { delete(r.cases, "identity"); r.put(caseName, "Fine", "x") }, Failure, 1},
		"violated outranks open": {func(r *recorder) { r.inconclusive(caseFull, "x"); r.violated(caseNoNode, "y") }, Failure, 1},
	} {
		rec := all()
		c.change(rec)
		if r := rec.report(); r.Conclusion != c.want || r.ExitCode() != c.exit {
			t.Errorf("%s: want %s and exit code %d, got %s and %d", name, c.want, c.exit, r.Conclusion, r.ExitCode())
		}
	}
	if got := (Report{}).ExitCode(); got != 1 {
		t.Errorf("a report without a conclusion: want exit code 1, got %d", got)
	}
	if r := newRecorder().report(); r.Conclusion != Partial || r.Summary.Inconclusive != len(checks) {
		t.Errorf("nothing judged: want all inconclusive, got %s, %+v", r.Conclusion, r.Summary)
	}
}

// TestEveryCaseHasACheck finds cases that no check lists, or checks that are listed twice.
func TestEveryCaseHasACheck(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks {
		if seen[c.ID] || c.Claim == "" || c.Source == "" || len(c.Cases) == 0 {
			t.Errorf("check %q: want it once, with claim, source and cases", c.ID)
		}
		seen[c.ID] = true
	}
	for _, c := range append(attachCases, quotaCases...) {
		c.known()
	}
	defer func() {
		if recover() == nil {
			t.Error("want a case that no check has to panic")
		}
	}()
	newRecorder().held(caseID{"answers", "some call"}, "")
}

func TestPrinted(t *testing.T) {
	rec := all()
	rec.violated(caseFull, "want 8 ResourceExhausted, got 13 Internal: \x1b[31mred")
	delete(rec.cases, "query-budget")
	rec.skipped(caseBudget, "nobody counts")
	delete(rec.cases, "total-not-remaining")
	rec.unfit("no volumes", caseTotal)
	rec.inconclusive(caseProbe, "not ready")
	r := rec.report()
	r.Driver, r.Version, r.Node, r.Elapsed = "d.test", "v1", "n1", report.Duration(1500*time.Millisecond)
	var out bytes.Buffer
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`driver d.test v1   node "n1"   1.5s`, "class-is-honest      VIOLATED      1 violated, 5 held\n", "query-budget         skipped       1 skipped (extended)\n",
		"violated:\n  class-is-honest: A failed attach", "    node is full: want 8 ResourceExhausted, got 13 Internal:  [31mred\n",
		"not told:\n  identity:", "    probe: not ready\n", "skipped:\n  query-budget:", "    whole check: nobody counts\n", "does not apply:\n  total-not-remaining:",
		"18 checks: 14 held, 1 violated, 1 inconclusive, 2 skipped: failure\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, out.String())
		}
	}
	var fromJSON, fromYAML Report
	out.Reset()
	if err := r.JSON(&out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &fromJSON); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := r.YAML(&out); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(out.Bytes(), &fromYAML); err != nil {
		t.Fatal(err)
	}
	for _, got := range []Report{fromJSON, fromYAML} {
		if got.Conclusion != Failure || got.Kind != Kind || got.Elapsed != r.Elapsed || len(got.Checks) != len(r.Checks) || caseOf(t, got, caseFull).Status != report.Violated {
			t.Errorf("want the report again, got %+v", got)
		}
	}
}

// TestName: a driver that died before it said its name has one in the table all the same.
func TestName(t *testing.T) {
	for want, r := range map[string]Report{
		"d.test":         {Driver: "d.test", Definition: "d", Socket: "unix:///s"},
		"d":              {Definition: "d", Socket: "unix:///s"},
		"unix:///s":      {Socket: "unix:///s"},
		"without a name": {},
	} {
		var out bytes.Buffer
		if err := r.Table(&out); err != nil || r.Name() != want || !strings.HasPrefix(out.String(), "driver "+want+" ") {
			t.Errorf("want %q, got %q, %v:\n%s", want, r.Name(), err, out.String())
		}
	}
}

func TestTooSteep(t *testing.T) {
	at := func(ms int, count int64) answer {
		return answer{asked: time.Duration(ms) * time.Millisecond, came: time.Duration(ms+5) * time.Millisecond, count: count}
	}
	for name, c := range map[string]struct {
		answers []answer
		want    string // "" for not too steep
	}{
		"none":                         {nil, ""},
		"falls":                        {[]answer{at(0, 6), at(200, 2)}, ""},
		"a step":                       {[]answer{at(0, 2), at(200, 4)}, ""},
		"a jump":                       {[]answer{at(0, 2), at(200, 8)}, "2 to 8"},
		"one more than a step":         {[]answer{at(0, 2), at(200, 5)}, "2 to 5"},
		"two steps, asked seldom":      {[]answer{at(0, 2), at(10001, 6)}, ""},
		"two steps, asked too often":   {[]answer{at(0, 2), at(9000, 6)}, "2 to 6"},
		"steps an interval apart":      {[]answer{at(0, 2), at(200, 4), at(10100, 4), at(10300, 6)}, ""},
		"steps too soon":               {[]answer{at(0, 2), at(200, 4), at(5000, 6)}, "two within"},
		"as soon as it can be":         {[]answer{at(0, 2), at(200, 4), at(9990, 6)}, "two within 9.995s"},
		"an answer of no limit before": {[]answer{at(0, 6), at(200, 0), at(400, 6)}, ""},
	} {
		if got := tooSteep(c.answers, 2, 10*time.Second); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}

func TestDecode(t *testing.T) {
	r := all().report()
	const path = "reports/mine"
	var printed []byte
	write := func(print func(io.Writer) error, from, to string) {
		t.Helper()
		var out bytes.Buffer
		if err := print(&out); err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(out.String(), from, to, 1)
		if from != "" && text == out.String() {
			t.Fatalf("case changes nothing: %q is not in the report", from)
		}
		printed = []byte(text)
	}
	for _, print := range []func(io.Writer) error{r.YAML, r.JSON} {
		write(print, "", "")
		got, err := Decode(path, printed)
		if err != nil || got.Conclusion != Success || len(got.Comparable().Rows) != len(checks) {
			t.Errorf("want the report again, got %+v, %v", got, err)
		}
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"another kind":     {"kind: DriverCheck", "kind: Report", `want apiVersion "headroom/v1alpha1" and kind "DriverCheck"`},
		"unknown field":    {"summary:", "sumary:", "field sumary not found"},
		"unknown status":   {"status: Held", "status: Fine", `got "Fine"`},
		"edited":           {"status: Held", "status: Violated", "it was edited"},
		"edited in words":  {"conclusion: Success", "conclusion: Partial", "it was edited"},
		"not YAML":         {"kind: DriverCheck", "kind: [", "read report"},
		"a bad duration":   {"elapsed: 0s", "elapsed: 12", "want a duration with a unit"},
		"two of them":      {"apiVersion: headroom/v1alpha1", "kind: DriverCheck\napiVersion: headroom/v1alpha1\n---\napiVersion: headroom/v1alpha1", "want one document"},
		"another's report": {"apiVersion: headroom/v1alpha1", "apiVersion: headroom/v2", "headroom/v2"},
	} {
		write(r.YAML, c.from, c.to)
		if _, err := Decode(path, printed); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: want the file and %q, got %v", name, c.want, err)
		}
	}
}
