package run

import (
	"path/filepath"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
)

// TestNotBegunIsInconclusive holds that what a deadline left out is in the report, as open, and that nothing else changes.
func TestNotBegunIsInconclusive(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome history.Phase // of the spec that was begun
		status  report.Status
		code    int
	}{
		"the rest held":            {history.OK, report.Held, report.ExitInconclusive},
		"a violation stays proven": {history.Fail, report.Violated, report.ExitViolated},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Session{Dir: t.TempDir()}
			process, err := history.Create(s.events(), "r", "spec/p1")
			if err != nil {
				t.Fatal(err)
			}
			for _, phase := range []history.Phase{history.Invoke, tc.outcome} {
				process.Write(history.Event{Phase: phase, Key: "a", Body: history.Encode(history.Spec{})})
			}
			if err := process.Close(); err != nil {
				t.Fatal(err)
			}
			if s.specs, err = history.Create(s.events(), "r", "spec/runner"); err != nil {
				t.Fatal(err)
			}
			if err := s.NotBegun([]Requirement{{ID: "a", Claim: "A"}, {ID: "b", Claim: "B", Boundary: history.Kubelet}}, "before the deadline of 5m0s"); err != nil {
				t.Fatal(err)
			}
			if err := s.specs.Close(); err != nil {
				t.Fatal(err)
			}
			h := history.Header{Schema: history.Schema, Run: "r"}
			if err := history.Merge(s.events(), h, filepath.Join(s.Dir, report.FileHistory)); err != nil {
				t.Fatal(err)
			}
			run, err := report.OpenRun(s.Dir, false)
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			r, err := report.Judge(run.Header, run.Events(), nil)
			if err != nil || len(r.Requirements) != 2 || r.Requirements[0].Status != tc.status || report.ExitCode(r) != tc.code {
				t.Fatalf("want two requirements and exit code %d, got %+v (%v)", tc.code, r.Requirements, err)
			}
			q := r.Requirements[1]
			if q.ID != "b" || q.Status != report.Inconclusive || q.Message != "not begun before the deadline of 5m0s" || q.Title != "B" || q.Boundary != history.Harness {
				t.Errorf("got %+v", q)
			}
			if len(r.Doubts)+len(r.Environment) > 0 {
				t.Errorf("want no doubt and no environment problem, got %v, %v", r.Doubts, r.Environment)
			}
		})
	}
}

func TestNotBegunWhereTheEventsCannotBeRead(t *testing.T) {
	s := &Session{Dir: "["} // no pattern
	if err := s.NotBegun(nil, ""); err == nil {
		t.Error("want an error, got none")
	}
}
