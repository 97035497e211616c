package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

// bundled writes the bundles of a run and returns their names.
func bundled(t *testing.T, dir string, in Input) []string {
	t.Helper()
	if err := WriteEvidence(dir, Build(in), in.Events); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, DirEvidence, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

func TestEvidenceBundles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"logs/driver@n1/steady.csi.headroom.log": "I0729 10:15:34.000000 too early\nI0729 10:15:42.345000 said 0\n\x1b[31mI0729\nE0729 10:15:47.344000 still near\nI0729 10:15:59.0 late\n",
		"logs/driver@n2/other.log":               "of another node\n",
		"logs/kubelet@n1.log":                    "of another boundary\n",
		"logs/kube-scheduler.log":                "no times here\nlast words\n",
		"evidence/old.jsonl":                     "of a judgement before",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), text)
	}
	if got, want := bundled(t, dir, fixtures["violated"]()), []string{"bind-within-seen-default-p1.jsonl", "never-unbounded-n1.jsonl"}; !slices.Equal(got, want) {
		t.Fatalf("want %v, got %v", want, got)
	}
	lines := strings.Split(strings.TrimSpace(read(t, filepath.Join(dir, DirEvidence, "never-unbounded-n1.jsonl"))), "\n")
	var head Bundle
	var log Excerpt
	if err := json.Unmarshal([]byte(lines[0]), &head); err != nil {
		t.Fatal(err)
	}
	if head.Subject != "n1" || head.Boundary != history.Driver || len(head.Evidence) != 3 || head.Claim == "" || head.Detail == "" {
		t.Errorf("head %+v", head)
	}
	var keys []string
	for _, line := range lines[1 : len(lines)-1] {
		var e history.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Ref().String())
	}
	// The fault of 11 s is within 5 s and of the node; the component of 2 s is too early, the specs are of no node.
	if want := []string{"backend#1", "csi/n1#1", "csi/n1#2"}; !slices.Equal(keys, want) {
		t.Errorf("events: want %v, got %v", want, keys)
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &log); err != nil {
		t.Fatal(err)
	}
	if want := []string{"I0729 10:15:42.345000 said 0", "E0729 10:15:47.344000 still near"}; !log.Near || log.Log != "logs/driver@n1/steady.csi.headroom.log" || !slices.Equal(log.Lines, want) {
		t.Errorf("log %+v", log)
	}
	other := read(t, filepath.Join(dir, DirEvidence, "bind-within-seen-default-p1.jsonl"))
	if !strings.Contains(other, `"near":false,"lines":["no times here","last words"]`) {
		t.Errorf("want the log's end where no time is known, got %s", other)
	}

	if got := bundled(t, dir, fixtures["held"]()); len(got) != 0 {
		t.Errorf("want nothing left where nothing is violated, got %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, DirEvidence)); err == nil {
		t.Error("want no empty directory")
	}
}

func TestBundlesOfHostileSubjects(t *testing.T) {
	s := newScript()
	ref := s.add(1, "csi/n1", history.OK, "NodeGetInfo", nil, scoped("", "n1"))
	in := Input{Header: header(), Events: s.all()}
	for _, subject := range []string{"../../etc/passwd", "..-..-etc-passwd", strings.Repeat("ü", 400), ""} {
		in.Judged = append(in.Judged, judged(invariant("x", history.Driver),
			invariants.Verdict{Status: invariants.Violated, Boundary: history.Driver, Subject: subject, Evidence: []history.Ref{ref}}))
	}
	dir := t.TempDir()
	got := bundled(t, dir, in)
	if want := []string{"x-..-..-etc-passwd-2.jsonl", "x-..-..-etc-passwd.jsonl", "x-2.jsonl", "x.jsonl"}; !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("want nothing outside %s, got %v (%v)", DirEvidence, entries, err)
	}
}

func TestBundlesAreBounded(t *testing.T) {
	for name, tc := range map[string]struct{ events, verdicts, bundles int }{
		"many events":   {maxBundled + 10, 1, 1},
		"many verdicts": {10, maxBundles + 5, maxBundles},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			ref := s.add(1, "csi/n1", history.OK, "NodeGetInfo", nil, scoped("", "n1"))
			for range tc.events {
				s.add(2, "csi/n1", history.OK, "NodeGetInfo", nil, scoped("", "n1"))
			}
			in := Input{Header: header(), Events: s.all(), Judged: []Judged{judged(invariant("x", history.Driver))}}
			for range tc.verdicts {
				in.Judged[0].Verdicts = append(in.Judged[0].Verdicts,
					invariants.Verdict{Status: invariants.Violated, Boundary: history.Driver, Subject: "n1", Evidence: []history.Ref{ref}})
			}
			dir := t.TempDir()
			if got := bundled(t, dir, in); len(got) != tc.bundles {
				t.Errorf("want %d bundles, got %d", tc.bundles, len(got))
			}
			head, _, _ := strings.Cut(read(t, filepath.Join(dir, DirEvidence, "x-n1.jsonl")), "\n")
			if left := strings.Contains(head, `"leftOut":11`); left != (tc.events > maxBundled) {
				t.Errorf("want 11 events left out of too many only, got %s", head)
			}
		})
	}
}

func TestBundlesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	in := fixtures["violated"]()
	if err := WriteEvidence(filepath.Join(dir, "missing\x00"), Build(in), in.Events); err == nil || !strings.Contains(err.Error(), "write evidence") {
		t.Errorf("want an error that says what was written, got %v", err)
	}
}

func TestLogLinesNearAndFar(t *testing.T) {
	zone := time.FixedZone("x", 2*3600)
	from := time.Date(2026, 7, 29, 10, 15, 40, 0, zone)
	windows := []span{{from, from.Add(10 * time.Second)}, {}}
	for line, want := range map[string]bool{
		"I0729 10:15:40.000000   17 a.go:1] first":  true,
		"F0729 10:15:50.000000 last":                true,
		"I0729 10:15:50.000001 too late":            false,
		"I0729 08:15:45.000000 in another zone":     false,
		"I0730 10:15:45.000000 on another day":      false,
		"I9929 10:15:45.000000 on no day":           false,
		"2026/07/29 10:15:45 by a Go program":       true,
		"steady: 2026/07/29 10:15:45.123456 so too": true,
		"2025/07/29 10:15:45 in another year":       false,
		"said at 10:15:45":                          false,
		"":                                          false,
	} {
		if got := near(line, windows); got != want {
			t.Errorf("%q: want %v, got %v", line, want, got)
		}
	}
	if near("I0729 10:15:45.000000 x", []span{{}}) {
		t.Error("want no line near where the wall clock is not known")
	}
}

// TestLastEventsFollowTheScope holds that a spec's scope, which only its end tells, finds its events.
func TestLastEventsFollowTheScope(t *testing.T) {
	s := newScript()
	s.add(1, "spec/p1", history.Invoke, "count-drop", history.Spec{})
	s.add(2, "csi/p1-1-n1", history.OK, "NodeGetInfo", nil, scoped("p1-1", "p1-1-n1"))
	s.add(2, "csi/p1-2-n1", history.OK, "NodeGetInfo", nil, scoped("p1-2", "p1-2-n1"))
	s.add(3, "spec/p1", history.Fail, "count-drop", history.Spec{Message: "want 1, got 2"}, scoped("p1-1", ""))
	r := Build(Input{Header: header(), Events: s.all()})
	if q := r.Requirements[0]; q.Scope != "p1-1" || len(q.LastEvents) != 1 || q.LastEvents[0].Ref != "csi/p1-1-n1#1" {
		t.Errorf("want the event of scope p1-1, got %+v", q)
	}
}
