package reproduce

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/scenario"
)

func story(limit int64) *scenario.Scenario {
	return &scenario.Scenario{Metadata: scenario.Metadata{Name: "full", Doc: "d"}, Topology: scenario.Layout{Nodes: []scenario.Node{{Limit: limit}}}}
}

// played is the report of one play of "full" that ended so.
func played(status report.Status) report.Report {
	return report.Report{Requirements: []report.Requirement{
		{ID: "scenario/full-2", Status: status, Elapsed: report.Duration(41.4e9)}, {ID: "scenario/full-3", Status: report.Held},
	}}
}

func of(t *testing.T, s *scenario.Scenario, status report.Status) Row {
	t.Helper()
	row, err := Of(s, played(status), "scenario/full-2")
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestPlaysAreAdded(t *testing.T) {
	var r Results
	for _, status := range []report.Status{report.Held, report.Held, report.Violated, report.Inconclusive, report.Skipped} {
		r.Add(of(t, story(2), status))
	}
	if len(r.Rows) != 1 || r.Rows[0].String() != "2 of 3 (2 more told nothing)" || r.Rows[0].Longest != history.Duration(41e9) {
		t.Errorf("got %+v", r.Rows)
	}
	older := of(t, story(2), report.Held) // the same file, on a machine whose default version is an older one
	older.Kubernetes = "v1.35.4"
	r.Add(older)
	if len(r.Rows) != 2 || r.Rows[0].Kubernetes != "v1.35.4" || r.Rows[1].Played != 3 {
		t.Errorf("want a row of its own for another version, got %+v", r.Rows)
	}
}

func TestAChangeMakesRowsStale(t *testing.T) {
	var r Results
	r.Add(of(t, story(2), report.Held))
	told := story(2)
	told.Metadata.Doc, told.Metadata.Source = "in other words", "s"
	if rows, err := r.Current(told); err != nil || len(rows) != 1 {
		t.Errorf("other words: want its row, got %v, %v", rows, err)
	}
	if rows, err := r.Current(story(3)); err != nil || len(rows) != 0 {
		t.Errorf("another limit: want no row, got %v, %v", rows, err)
	}
	r.Add(of(t, story(3), report.Violated))
	if len(r.Rows) != 1 || r.Rows[0].String() != "0 of 1" {
		t.Errorf("want the stale row gone, got %+v", r.Rows)
	}
}

func TestFileIsReadBack(t *testing.T) {
	var r Results
	r.Add(of(t, story(2), report.Held))
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read("f.yaml", text)
	if err != nil || len(again.Rows) != 1 || again.Rows[0].String() != r.Rows[0].String() {
		t.Errorf("want %+v, got %+v, %v", r.Rows, again.Rows, err)
	}
	for want, edit := range map[string][2]string{
		"f.yaml:8: rows[0].reproduced: 4 of 1 plays": {"reproduced: 1", "reproduced: 4"},
		`f.yaml:2: kind: want "Reproductions"`:       {"kind: Reproductions", "kind: Coverage"},
		"f.yaml:4: rows[0].scenario: want text":      {"scenario: full", `scenario: ""`},
		"unknown field":                              {"played: 1", "plays: 1"},
	} {
		bad := strings.Replace(string(text), edit[0], edit[1], 1)
		if _, err := Read("f.yaml", []byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestFaultsOfAPlay(t *testing.T) {
	at := func(seconds int, scope, op, key, state string) history.Event {
		return history.Event{
			At: time.Duration(seconds) * time.Second, Source: history.SourceFault, Scope: scope, Op: op, Key: key, Phase: history.Observed,
			Body: history.Encode(history.Fault{State: state, Target: "node/1"}),
		}
	}
	events := []history.Event{
		{At: 100 * time.Second, Source: "probe"},
		at(110, "a", "1", "quota-drop", "inject"), at(111, "b", "9", "quota-raise", "inject"), at(111, "a", "1", "quota-drop", "effective"),
		at(120, "a", "1", "quota-drop", "heal"), at(122, "a", "1", "quota-drop", "healed"),
		at(130, "a", "2", "quota-flap", "inject"), at(131, "a", "2", "quota-flap", "heal"), at(131, "a", "2", "quota-flap", "healed"),
		at(135, "a", "4", "driver-restart", "inject"),
		at(140, "a", "3", "csi-slow", "inject"), at(141, "a", "3", "csi-slow", "failed"),
		at(154, "a", "4", "driver-restart", "heal"), at(154, "a", "4", "driver-restart", "healed"),
	}
	got, err := Faults(func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}, "a", report.Requirement{Started: report.Duration(5e9), Elapsed: report.Duration(50e9)})
	second := history.Duration(time.Second)
	want := []Fault{
		{Fault: "quota-drop", Target: "node/1", Bites: 10 * second, Heals: 2 * second, Took: 20 * second},
		{Fault: "quota-flap", Target: "node/1", Bites: second, Took: 5 * second},
		{Fault: "driver-restart", Target: "node/1", Bites: 5 * second, Took: 5 * second},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
	slower := slices.Clone(want)
	slower[0].Took += second
	if joined := longest(want, slower); !slices.Equal(joined, slower) {
		t.Errorf("want the longest of both, got %+v", joined)
	}
}
