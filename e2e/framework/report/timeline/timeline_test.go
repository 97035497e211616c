package timeline

import (
	"encoding/json"
	"fmt"
	"html"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/invariants"
)

func TestRows(t *testing.T) {
	s := newScript()
	s.quota(0, "n10", 5)
	s.quota(0, "n2", 5)
	s.answer(1, "n2", 5)
	s.count(1.5, "n2", 5)
	s.answer(2, "n2", 5)
	s.answer(3, "n2", -1)
	s.count(3.5, "n2", 0)
	s.count(4, "n2", -1)
	s.add(5, "backend", history.Observed, history.Event{Node: "n2", Key: "quota"}, history.Backend{})
	s.attachment(6, "n2", "a", "ADDED", false)
	s.attachment(7, "n2", "a", "MODIFIED", true)
	s.attachment(8, "n2", "a", "DELETED", true)
	s.pod(9, "n2", "p", "Pending", "")
	s.pod(9.5, "n2", "p", "Running", "")
	s.pod(10, "n2", "p", "Failed", "VolumeAttachmentLimitExceeded")
	s.pod(10.5, "n2", "p", "Failed", "VolumeAttachmentLimitExceeded")
	s.add(11, "csi/n2", history.Fail, history.Event{Node: "n2", Key: "NodeGetInfo"}, history.CSICall{Side: history.ClientSide, Driver: "d", Code: 14, Message: "gone"})
	s.add(12, "csi/controller/d", history.Fail, history.Event{Key: "ControllerPublishVolume"}, history.CSICall{Side: history.ClientSide, Driver: "d", NodeID: "n2", Volume: "v", Code: 8})
	s.add(13, "component/cell", history.Observed, history.Event{Key: "kubelet@n2"}, history.Component{State: "exited", Exit: "signal: killed"})
	s.answer(14, "n10", 5)
	p := s.page()
	if len(p.Rows) != 2 || p.Rows[0].Node != "n2" || p.Rows[1].Node != "n10" || p.Duration != 14010 || len(p.LeftOut) != 0 {
		t.Fatalf("want rows n2 and n10 over 14010 ms, got %+v", p)
	}
	r := p.Rows[0]
	for name, tc := range map[string]struct{ got, want []Step }{
		"usable":   {r.Usable, []Step{{0, 5}, {5000, Nothing}}},
		"answer":   {r.Answer, []Step{{1010, 5}, {3010, Unlimited}, {4000, Nothing}}},
		"count":    {r.Count, []Step{{1500, 5}, {3500, Unlimited}, {4000, Nothing}}},
		"attached": {r.Attached, []Step{{6000, 0}, {7000, 1}, {8000, 0}}},
	} {
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("%s: want %v, got %v", name, tc.want, tc.got)
		}
	}
	var marks []string
	for _, m := range r.Marks {
		marks = append(marks, fmt.Sprintf("%d %s %s", m.At, m.Kind, m.Text))
	}
	want := []string{
		"1500 write update by system:node:n2: 200", "3500 write update by system:node:n2: 200", "4000 write update by system:node:n2: 200",
		"9000 bind ns/p bound", "10000 rejection ns/p failed: VolumeAttachmentLimitExceeded", "11000 answer NodeGetInfo failed: code 14 gone",
		"12000 attach attach of v failed: code 8", "13000 component kubelet@n2 exited signal: killed",
	}
	for i := range marks {
		marks[i] = strings.TrimSpace(marks[i])
	}
	if !slices.Equal(marks, want) {
		t.Errorf("marks: want\n%s\ngot\n%s", strings.Join(want, "\n"), strings.Join(marks, "\n"))
	}
	if r.Scope != "p1-1" || r.Driver != "d" {
		t.Errorf("want scope p1-1 and driver d, got %q, %q", r.Scope, r.Driver)
	}
}

func TestShadesAndVerdicts(t *testing.T) {
	p := busy(2).page()
	var shades []string
	for _, s := range p.Shades {
		shades = append(shades, fmt.Sprintf("%d-%d %s %s %v", s.From, s.To, s.Kind, s.Text, s.Nodes))
	}
	want := []string{
		"40000-55000 fault backend: hang of get [p1-1-n2]", "70000-80000 fault kill-kubelet kubelet@p1-1-n1 [p1-1-n1]",
		"58500-60000 slow harness slow: 1.5s (probe) []",
	}
	if !slices.Equal(shades, want) {
		t.Errorf("want\n%s\ngot\n%s", strings.Join(want, "\n"), strings.Join(shades, "\n"))
	}
	var names []string
	for _, v := range p.Verdicts {
		names = append(names, v.Name+" "+v.Status)
	}
	if want := []string{"count-drop Violated", "never-unbounded Violated", "one-writer Held"}; !slices.Equal(names, want) {
		t.Errorf("want %v, got %v", want, names)
	}
	v := p.Verdicts[1]
	if len(v.Evidence) != 2 || v.At != v.Evidence[1].At || v.At < 60000 || v.Evidence[0].Node != "p1-1-n1" || !strings.Contains(v.Evidence[0].Text, "quota") {
		t.Errorf("want evidence with times and nodes, got %+v", v)
	}
	if len(p.Specs) != 1 || p.Specs[0].Scope != "p1-1" || p.Specs[0].To != 120000 || len(p.Signals) < 6 {
		t.Errorf("specs %+v, signals %+v", p.Specs, p.Signals)
	}
}

func TestAFaultThatIsNeverHealedLastsToTheEnd(t *testing.T) {
	s := newScript()
	s.add(1, history.SourceFault, history.Observed, history.Event{Key: "x", Op: "1"}, history.Fault{State: "inject"})
	s.add(2, "backend", history.Observed, history.Event{Key: "fault"}, history.Backend{Fault: "refuse"})
	s.quota(9, "n1", 1)
	p := s.page()
	if len(p.Shades) != 2 || p.Shades[0].To != 8000 || p.Shades[1].To != 8000 || len(p.Shades[1].Nodes) != 0 {
		t.Errorf("want both to last to 8000 ms, on all nodes, got %+v", p.Shades)
	}
}

func TestRank(t *testing.T) {
	order := []string{"Violated", "Inconclusive", "Expected", "KnownUpstream", "Held", "NotJudged", "Skipped"}
	for i, s := range order {
		if rank(s) != i {
			t.Errorf("%s: want %d, got %d", s, i, rank(s))
		}
	}
	if rank("") != 0 || rank("held") != 0 {
		t.Error("want what is no status among the violated")
	}
}

func TestNaturalOrder(t *testing.T) {
	names := []string{"n10", "n2", "a", "n1", "n02", "p1-2-n1", "p1-10-n1", ""}
	slices.SortFunc(names, natural)
	if got, want := strings.Join(names, " "), " a n1 n02 n2 n10 p1-2-n1 p1-10-n1"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

func render(t *testing.T, p Page) string {
	t.Helper()
	b, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// dataOf reads the page's data back, as its script does.
func dataOf(t *testing.T, text string) map[string]any {
	t.Helper()
	_, rest, ok := strings.Cut(text, `<script type="application/json" id="data">`)
	data, _, end := strings.Cut(rest, "</script>")
	var out map[string]any
	if err := json.Unmarshal([]byte(data), &out); !ok || !end || err != nil {
		t.Fatalf("want the data as JSON, got %v", err)
	}
	return out
}

const hostile = `</script><img src=x onerror=alert(1)>"'&<!-- ` + "\u2028`${1}"

// hostileScript is a run whose every name is an attack.
func hostileScript() *script {
	s := newScript()
	s.header.Run, s.header.Params.Driver.Name, s.header.Versions = hostile, hostile, map[string]string{hostile: hostile}
	s.add(0, "spec/p1", history.Invoke, history.Event{Key: hostile}, history.Spec{Title: hostile})
	ref := s.quota(0, hostile, 3)
	s.answer(1, hostile, 3)
	s.count(2, hostile, 3)
	s.pod(3, hostile, hostile, "Failed", hostile)
	s.add(4, history.SourceFault, history.Observed, history.Event{Key: hostile, Op: "1"}, history.Fault{State: "inject", Target: hostile})
	s.add(5, "spec/p1", history.Fail, history.Event{Key: hostile, Scope: hostile}, history.Spec{Message: hostile})
	s.violated(hostile, hostile, hostile, ref)
	return s
}

func TestHostileTextIsData(t *testing.T) {
	p := hostileScript().page()
	text := render(t, p)
	for _, bad := range []string{"<img", "onerror=alert(1)>\"", "<!--"} {
		if strings.Contains(text, bad) {
			t.Errorf("want no %q in the page", bad)
		}
	}
	if n := strings.Count(text, "</script>"); n != 2 {
		t.Errorf("want two scripts, got the ends of %d", n)
	}
	if got := dataOf(t, text)["run"]; got != hostile {
		t.Errorf("want the name whole as data, got %q", got)
	}
	if !strings.Contains(html.UnescapeString(text), "headroom run "+hostile) {
		t.Error("want the name whole in the heading")
	}
}

// TestPageLoadsNothing holds that the page is one file: no address of anything, and a policy that forbids loading.
func TestPageLoadsNothing(t *testing.T) {
	text := render(t, busy(2).page())
	for _, bad := range []string{"http:", "https:", " src=", "<link", "@import", "url(", "fetch(", "innerHTML", "eval("} {
		if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), bad) {
			t.Errorf("want no %q in the page", bad)
		}
	}
	if !strings.Contains(text, `content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"`) {
		t.Error("want a policy that forbids loading")
	}
}

func TestPageIsBounded(t *testing.T) {
	s := newScript()
	for i := range 2000 {
		node := fmt.Sprintf("n%d", i%3+1)
		for j := range 14 {
			at := float64(i) + float64(j)/20
			s.quota(at, node, int64(i*14+j))
			s.pod(at, node, fmt.Sprintf("p-%d-%d-%s", i, j, strings.Repeat("x", 300)), "Pending", "")
		}
	}
	s.answer(3000, "n1", 1)
	s.answer(3000, "n2", 1)
	s.answer(3000, "n3", 1)
	for i := range maxVerdicts + 5 {
		s.violated(fmt.Sprintf("claim-%d", i), "n1", "want 1, got 2 at +1s")
	}
	p := s.page()
	text := render(t, p)
	if len(text) > 12<<20 {
		t.Errorf("want at most 12 MiB, got %d bytes", len(text))
	}
	left := strings.Join(p.LeftOut, "\n")
	for _, want := range []string{"5 of 1005 verdicts", "n1/d: ", "changes of limits after the first", "marks after the first"} {
		if !strings.Contains(left, want) {
			t.Errorf("want %q said to be left out, got\n%s", want, left)
		}
	}
	if n := len(busy(50).page().LeftOut); n != 0 {
		t.Errorf("50 busy nodes: want nothing left out, got %d", n)
	}
	if n := len(render(t, busy(50).page())); n > 1<<20 {
		t.Errorf("50 busy nodes: want at most 1 MiB, got %d bytes", n)
	}
}

func TestTooManyRows(t *testing.T) {
	s := newScript()
	for i := range maxRows + 7 {
		s.answer(1, fmt.Sprintf("n%d", i), 1)
	}
	if p := s.page(); len(p.Rows) != maxRows || !slices.Contains(p.LeftOut, "7 of 507 nodes and drivers") {
		t.Errorf("want %d rows and 7 left out, got %d and %v", maxRows, len(p.Rows), p.LeftOut)
	}
}

func TestEmptyAndDamagedHistories(t *testing.T) {
	s := newScript()
	if p := s.page(); len(p.Rows) != 0 || !strings.Contains(p.Summary, "nothing was judged") {
		t.Errorf("want no rows and the doubt, got %+v", p)
	}
	s.answer(1, "n1", 1)
	damaged := func(yield func(history.Event, error) bool) {
		for e := range s.all() {
			if !yield(e, nil) {
				return
			}
		}
		yield(history.Event{}, fmt.Errorf("history.jsonl:3: torn"))
	}
	r := report.Build(report.Input{Header: s.header, Events: damaged, Judged: []report.Judged{{Invariant: invariants.Invariant{Name: "x"}}}})
	p := Build(s.header, damaged, r)
	if len(p.Rows) != 1 || !strings.Contains(p.Summary, "history.jsonl:3: torn") || p.Verdicts[0].Status != "NotJudged" {
		t.Errorf("want what came before the damage, and the damage, got %+v", p)
	}
}
