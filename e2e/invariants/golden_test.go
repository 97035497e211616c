package invariants

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
)

var update = flag.Bool("update", false, "rewrite fixtures/histories from the scripts of this package")

const goldenDir = "../../fixtures/histories"

// TestGoldenFiles keeps the files and the scripts that they were written from equal.
func TestGoldenFiles(t *testing.T) {
	for _, g := range slices.Concat(driverGoldens, capacityGoldens, kubeletGoldens, schedulerGoldens, cleanupGoldens, upgradeGoldens, volumeGoldens) {
		s := newScript()
		g.write(s)
		path := filepath.Join(goldenDir, g.invariant, g.file+".jsonl")
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, s.lines(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, s.lines()) {
			t.Errorf("%s differs from its script: run `go test ./e2e/invariants -run TestGoldenFiles -update` and review the change", path)
		}
	}
}

// TestGoldens judges each history by the invariant that its folder names, and wants the status that its name begins with.
func TestGoldens(t *testing.T) {
	seen := map[string]map[Status]bool{}
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		file := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		t.Run(name+"/"+file, func(t *testing.T) {
			inv, ok := Find(name)
			if !ok {
				t.Fatalf("no invariant %q", name)
			}
			word, _, _ := strings.Cut(file, "-")
			want, ok := map[string]Status{"held": Held, "violated": Violated, "inconclusive": Inconclusive}[word]
			if !ok {
				t.Fatalf("want a name that begins with held-, violated- or inconclusive-, got %q", file)
			}
			r, err := history.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			rep := Judge(r.All(), r.Header(), inv)
			if rep.Err != nil {
				t.Fatal(rep.Err)
			}
			verdicts := rep.Results[0].Verdicts
			if len(verdicts) != 1 || verdicts[0].Status != want {
				t.Fatalf("want one verdict %s, got %+v", want, verdicts)
			}
			checkVerdict(t, inv, verdicts[0])
			if seen[name] == nil {
				seen[name] = map[Status]bool{}
			}
			seen[name][want] = true
		})
	}
	for _, inv := range All() {
		if !seen[inv.Name][Held] || !seen[inv.Name][Violated] {
			t.Errorf("%s: want a held and a violated history in %s, got %v", inv.Name, goldenDir, seen[inv.Name])
		}
	}
}

// checkVerdict wants a verdict that a person can act upon.
func checkVerdict(t *testing.T, inv Invariant, v Verdict) {
	t.Helper()
	if v.Subject == "" || v.Boundary != inv.Boundary && !slices.Contains(inv.Others, v.Boundary) {
		t.Errorf("want a subject and boundary %q or one of %q, got %+v", inv.Boundary, inv.Others, v)
	}
	if v.Status == Violated && (len(v.Evidence) == 0 || !strings.HasPrefix(v.Detail, "want ") || !strings.Contains(v.Detail, "got ") || !strings.Contains(v.Detail, "+")) {
		t.Errorf("want evidence and want, got, when, got %+v", v)
	}
	t.Logf("%s %v: %s", v.Subject, v.Evidence, v.Detail)
}

func TestRegistry(t *testing.T) {
	for _, inv := range All() {
		if inv.Name == "" || inv.Claim == "" || inv.Source == "" || inv.Boundary == "" || len(inv.Needs) == 0 || inv.New == nil {
			t.Errorf("want every field of %q set, got %+v", inv.Name, inv)
		}
	}
	if _, ok := Find("no-such"); ok {
		t.Error("want no invariant of that name")
	}
	written := 0
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") {
			written += bytes.Count(text, []byte("= Invariant{\n"))
		}
	}
	if got := len(All()); got != written {
		t.Errorf("want all %d invariants of this folder in All(), got %d", written, got)
	}
}
