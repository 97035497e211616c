package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLive(t *testing.T) {
	dir := t.TempDir()
	l := NewLive(dir)
	a, err := Create(dir, "r", "a")
	if err != nil {
		t.Fatal(err)
	}
	a.Write(Event{Phase: Observed, Key: "one"})
	early := Now()
	a.Write(Event{Phase: Observed, Key: "two"})
	b, err := Create(dir, "r", "deep/b") // a writer that comes later
	if err != nil {
		t.Fatal(err)
	}
	b.Write(Event{Phase: Observed, Key: "three"})
	keys := func(upTo time.Duration) string {
		t.Helper()
		events, err := l.Read(upTo)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range events {
			if e.Key != KeyOpen {
				all = append(all, e.Key)
			}
		}
		return strings.Join(all, " ")
	}
	if got := keys(early); got != "one" {
		t.Errorf("up to the first event: want %q, got %q", "one", got)
	}
	if got := keys(Now()); got != "two three" {
		t.Errorf("then: want what is new, of all writers in order, got %q", got)
	}
	path := filepath.Join(dir, "a.jsonl")
	torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer torn.Close()
	put := func(text string) {
		t.Helper()
		if _, err := torn.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"at":1,"src":"a","seq":4,"ph":"observed","key":"fo`)
	if got := keys(Now()); got != "" {
		t.Errorf("a line without its end: want nothing, got %q", got)
	}
	put("ur\"}\n")
	if got := keys(Now()); got != "four" {
		t.Errorf("once it is whole: want %q, got %q", "four", got)
	}
	put("no event\n")
	if _, err := l.Read(Now()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a line that is no event: want an error with its file, got %v", err)
	}
	if _, err := NewLive(filepath.Join(dir, "nowhere")).Read(Now()); err == nil {
		t.Error("no directory: want an error")
	}
}
