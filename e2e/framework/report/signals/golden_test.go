package signals

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

const fixtures = "../../../../fixtures"

// measured are the histories of the golden files: those that show something of a signal. New histories of other claims change nothing here.
var measured = map[string][]string{
	"histories.txt": {
		"histories/answer-to-csinode/held-superseded.jsonl", "histories/answer-to-csinode/inconclusive-gap.jsonl",
		"histories/answer-to-csinode/violated-late.jsonl", "histories/class-is-honest/violated-full-as-13.jsonl",
		"histories/one-writer/violated-other-node.jsonl", "histories/reactive-converges/held.jsonl",
		"histories/reactive-converges/violated-still-pending.jsonl",
	},
	"runs.txt": {
		"runs/all-internal.jsonl", "runs/rejection.jsonl", "runs/stale-count.jsonl", "runs/steady.jsonl", "runs/unlimited-on-outage.jsonl",
		"runs/waiting.jsonl",
	},
}

func TestGolden(t *testing.T) {
	for golden, names := range measured {
		var got bytes.Buffer
		for _, name := range names {
			fmt.Fprintln(&got, name)
			for _, l := range measure(t, filepath.Join(fixtures, name)).Lines() {
				fmt.Fprintf(&got, "  %-16s %s\n", l.Name, l.Text)
			}
		}
		path := filepath.Join("testdata", golden)
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs: run `go test ./e2e/framework/report/signals -update` and review the change; got\n%s", path, got.String())
		}
	}
}

// TestEveryHistoryCanBeMeasured holds that no history that the invariants are tested with breaks the fold.
func TestEveryHistoryCanBeMeasured(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(fixtures, "histories", "*", "*.jsonl"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("want histories, got %v (error: %v)", paths, err)
	}
	for _, path := range paths {
		for _, why := range measure(t, path).Incomplete {
			if strings.HasPrefix(why, "all: ") {
				t.Errorf("%s: %s", path, why)
			}
		}
	}
}

func measure(t *testing.T, path string) Signals {
	t.Helper()
	r, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := New(r.Header())
	for e, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		c.Observe(e)
	}
	return c.Finish()
}
