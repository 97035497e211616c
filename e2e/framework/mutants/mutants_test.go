package mutants

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/report"
)

// of are the lines of some personas over 3 seeds.
func of(t *testing.T, names ...string) []Line {
	t.Helper()
	lines, err := Lines(names, Options{Seed: 1, Seeds: 3, Duration: plan.Shortest})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// came is the report of a play: invariants that are violated, and those that are not.
func came(violated string, others map[string]report.Status) (r report.Report) {
	for _, name := range strings.Fields(violated) {
		r.Invariants = append(r.Invariants, report.InvariantResult{Name: name, Status: report.Violated})
	}
	for name, s := range others {
		r.Invariants = append(r.Invariants, report.InvariantResult{Name: name, Status: s})
	}
	return r
}

// add adds the play of a plan.
func add(t *testing.T, r *Results, l Line, p Plan, played report.Report) {
	t.Helper()
	row, told := l.RowOf(p, played)
	if !told {
		t.Fatalf("want the play of seed %d to tell something, got %+v", p.Seed, played)
	}
	r.Add(row)
}

func texts(t *testing.T, lines []Line, r Results) (out []string) {
	t.Helper()
	all, err := Findings(lines, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		out = append(out, map[bool]string{true: "open: "}[f.Open]+f.Text)
	}
	return out
}

func TestALineStopsWhereItIsCaught(t *testing.T) {
	l := of(t, "negative")[0]
	var r Results
	seed := func(skip ...int64) int64 {
		left := map[int64]bool{}
		for _, s := range skip {
			left[s] = true
		}
		p, more := l.Next(r, left)
		if !more {
			return 0
		}
		return p.Seed
	}
	held := map[string]report.Status{"never-unbounded": report.Held}
	if seed() != 1 || seed(1) != 2 || seed(1, 2, 3) != 0 {
		t.Errorf("want seeds 1, 2 and none, got %d, %d and %d", seed(), seed(1), seed(1, 2, 3))
	}
	add(t, &r, l, l.Plans[0], came("", held))
	add(t, &r, l, l.Plans[2], came("", held))
	if seed() != 2 {
		t.Errorf("want the seed that told nothing, got %d", seed())
	}
	add(t, &r, l, l.Plans[1], came("never-unbounded write-budget", nil))
	if p, row, caught := l.Caught(r); seed() != 0 || !caught || p.Seed != 2 || !slices.Equal(row.Violated, []string{"never-unbounded", "write-budget"}) {
		t.Errorf("want it caught at seed 2, got next %d, %v, %+v", seed(), caught, row)
	}
}

func TestWhatAPlayTells(t *testing.T) {
	l := of(t, "negative")[0]
	control, err := ControlOf(l.Plans[0])
	if err != nil {
		t.Fatal(err)
	}
	broken := func(r report.Report) report.Report {
		r.Environment = []report.EnvironmentProblem{{Op: "start", Error: "no"}}
		return r
	}
	early := came("", map[string]report.Status{"never-unbounded": report.Held})
	early.Requirements = []report.Requirement{
		{ID: "scenario/chaos-1", Status: report.Violated, Message: "step 5: want the pods running, got none\nand more; answer-within-quota: want it held"},
	}
	expected := came("never-unbounded", nil)
	expected.Requirements = []report.Requirement{{ID: "scenario/chaos-1", Status: report.Violated, Message: "never-unbounded: want it held, got violated"}}
	for name, c := range map[string]struct {
		line   Line
		report report.Report
		told   bool
		root   report.Status
		cut    string
	}{
		"held":                            {l, came("", map[string]report.Status{"never-unbounded": report.Held}), true, report.Held, ""},
		"inconclusive":                    {l, came("", map[string]report.Status{"never-unbounded": report.Inconclusive}), true, report.Inconclusive, ""},
		"not judged":                      {l, came("", map[string]report.Status{"one-writer": report.Held}), true, report.NotJudged, ""},
		"no report":                       {l, broken(report.Report{}), false, report.NotJudged, ""},
		"environment":                     {l, broken(came("", map[string]report.Status{"never-unbounded": report.Held})), false, report.Held, ""},
		"caught for all that":             {l, broken(came("never-unbounded", nil)), true, report.Violated, ""},
		"another violated, environment":   {l, broken(came("one-writer", nil)), false, report.NotJudged, ""},
		"it ended early":                  {l, early, true, report.Held, "step 5: want the pods running, got none"},
		"what the plan expects":           {l, expected, true, report.Violated, ""},
		"the control":                     {Line{Plans: []Plan{control}}, came("", map[string]report.Status{"never-unbounded": report.Held}), true, "", ""},
		"the control in a broken cluster": {Line{Plans: []Plan{control}}, broken(came("", nil)), false, "", ""},
	} {
		row, told := c.line.RowOf(c.line.Plans[0], c.report)
		if told != c.told || row.Root != string(c.root) || row.Cut != c.cut || row.Plan != plan.Version || row.Kubernetes == "" || row.Attacher == "" {
			t.Errorf("%s: want told=%t, root %q, cut %q, got %t, %+v", name, c.told, c.root, c.cut, told, row)
		}
	}
}

func TestFindings(t *testing.T) {
	lines := of(t, "negative", "stale-cache", "create-hangs")
	var r Results
	if got := texts(t, lines, r); len(got) != 2 || !strings.HasPrefix(got[0], "open: negative: not caught in 0 of 3 seeds") {
		t.Errorf("want two that were not played, got %q", got)
	}
	add(t, &r, lines[0], lines[0].Plans[0], came("never-unbounded one-writer", nil))
	for _, p := range lines[1].Plans {
		add(t, &r, lines[1], p, came("", map[string]report.Status{"answer-within-quota": report.Inconclusive}))
	}
	want := []string{
		"negative, seed 1 of quota-outage:negative: violated one-writer, neither its root nor what may break with it",
		"stale-cache: not caught within 3 seeds: answer-within-quota was never violated",
		"open: steady, seed 1 of quota-outage:negative: not played, or it told nothing",
	}
	if got := texts(t, lines, r); !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	controls, err := Controls(lines, r)
	if err != nil || len(controls) != 1 {
		t.Fatalf("want one control, got %v, %v", controls, err)
	}
	add(t, &r, controls[0], controls[0].Plans[0], came("one-writer", nil))
	if got := texts(t, lines, r); !slices.Contains(got, "steady, seed 1 of quota-outage:negative: violated one-writer, though the driver has no mistake") {
		t.Errorf("want the control's violation, got %q", got)
	}
	add(t, &r, controls[0], controls[0].Plans[0], came("", map[string]report.Status{"never-unbounded": report.Held}))
	if got := texts(t, lines[:1], r); len(got) != 1 || len(r.Rows) != 5 {
		t.Errorf("want the control's row replaced and only the stray left, got %q and %d rows", got, len(r.Rows))
	}
	matrix, err := Matrix(lines, r)
	for _, line := range []string{
		"DRIVER                          1  2  3  FAULTS\n", "negative                        R        quota-outage:negative: caught at seed 1 by never-unbounded; also one-writer, which",
		"stale-cache                     ?  ?  ?  quota: not caught\n", "create-hangs                             no plan can show it: ",
		"steady                          c        quota-outage:negative\n",
	} {
		if err != nil || !strings.Contains(matrix, line) {
			t.Errorf("want %q, got %v\n%s", line, err, matrix)
		}
	}
}

// TestAPlanThatChanged shows that a result is a plan's, and no other plan's of the same seed.
func TestAPlanThatChanged(t *testing.T) {
	l := of(t, "negative")[0]
	var r Results
	add(t, &r, l, l.Plans[0], came("never-unbounded", nil))
	longer, err := Lines([]string{"negative"}, Options{Seed: 1, Seeds: 3, Duration: 3 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if p, more := longer[0].Next(r, nil); !more || p.Seed != 1 {
		t.Errorf("want seed 1 played again, got %v, %t", p.Seed, more)
	}
	older := r.Rows[0]
	older.Kubernetes = "v1.35.4"
	r.Add(older)
	add(t, &r, longer[0], longer[0].Plans[0], came("", map[string]report.Status{"never-unbounded": report.Held}))
	if len(r.Rows) != 1 || r.Rows[0].Root != string(report.Held) {
		t.Errorf("want the rows of the other plan gone, got %+v", r.Rows)
	}
}

func TestFileIsReadBack(t *testing.T) {
	l := of(t, "negative")[0]
	var r Results
	add(t, &r, l, l.Plans[0], came("never-unbounded", nil))
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read("f.yaml", text)
	if err != nil || len(again.Rows) != 1 || again.Rows[0].Digest != r.Rows[0].Digest || !again.Rows[0].Caught() {
		t.Errorf("want %+v, got %+v, %v", r.Rows, again.Rows, err)
	}
	body := string(text)[strings.Index(string(text), "  - driver"):]
	for want, edit := range map[string][2]string{
		`f.yaml:2: kind: want "MutantPlays"`:            {"kind: MutantPlays", "kind: Coverage"},
		"f.yaml:7: rows[0].seed: want 1 or more, got 0": {"seed: 1", "seed: 0"},
		`rows[0].root: want what became of the root`:    {"root: Violated", "root: Broken"},
		"f.yaml:4: rows[0].root: want":                  {"    root: Violated\n", ""},
		"and nothing for steady":                        {"driver: negative", "driver: steady"},
		"unknown field":                                 {"seed: 1", "seeds: 1"},
		"rows[1].digest: plan":                          {body, body + body},
	} {
		if _, err := Read("f.yaml", []byte(strings.Replace(string(text), edit[0], edit[1], 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	empty, err := Results{}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if again, err = Read("f.yaml", empty); err != nil || len(again.Rows) != 0 {
		t.Errorf("want an empty file read back, got %v, %v", again, err)
	}
}
