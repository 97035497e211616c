package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func create(t *testing.T, dir, run, source string) *Writer {
	t.Helper()
	w, err := Create(dir, run, source)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// merge merges dir/events and returns the events, keys only, with gaps as "gap:<source>".
func merge(t *testing.T, dir string) []string {
	t.Helper()
	out := filepath.Join(dir, "history.jsonl")
	if err := Merge(filepath.Join(dir, "events"), Header{Run: "r1", Seed: 7}, out); err != nil {
		t.Fatal(err)
	}
	r, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Header().Seed != 7 || r.Header().Schema != Schema {
		t.Fatalf("header = %+v", r.Header())
	}
	var keys []string
	for e, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		if src := e.GapSource(); src != "" {
			keys = append(keys, "gap:"+src)
			continue
		}
		if e.Key != KeyOpen && e.Key != KeyClose {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func TestMergeOrdersByTimeSourceAndNumber(t *testing.T) {
	dir := t.TempDir()
	events := filepath.Join(dir, "events")
	b, a := create(t, events, "r1", "csi/n1"), create(t, events, "r1", "backend")
	base := Now() + time.Hour // after the open records
	b.Write(Event{At: base + 2, Phase: Observed, Key: "b2"})
	a.Write(Event{At: base + 2, Phase: Observed, Key: "a2"})
	a.Write(Event{At: base + 3, Phase: Observed, Key: "a3"})
	b.Write(Event{At: base + 3, Phase: Observed, Key: "b3"})
	b.Write(Event{At: base + 1, Phase: Observed, Key: "b-late"}) // raised to b3's time
	for _, w := range []*Writer{a, b} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		w.Write(Event{Phase: Observed, Key: "after close"})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(merge(t, dir)), "[a2 b2 a3 b3 b-late]"; got != want {
		t.Fatalf("want %s, got %s", want, got)
	}
}

func TestDamageBecomesGaps(t *testing.T) {
	const gap = "gap:csi/n1"
	for name, tc := range map[string]struct {
		damage func(line []string) string // open, k1, k2, close
		want   []string
	}{
		"none":              {func(l []string) string { return strings.Join(l, "") }, []string{"k1", "k2"}},
		"no close record":   {func(l []string) string { return strings.Join(l[:3], "") }, []string{"k1", "k2", gap}},
		"torn last line":    {func(l []string) string { return l[0] + l[1] + l[2][:20] }, []string{"k1", gap, gap}},
		"torn close record": {func(l []string) string { return l[0] + l[1] + l[2] + l[3][:20] }, []string{"k1", "k2", gap, gap}},
		"hole in numbers":   {func(l []string) string { return l[0] + l[2] + l[3] }, []string{"k2", gap}},
		"line repeated":     {func(l []string) string { return l[0] + l[1] + l[1] + l[2] + l[3] }, []string{"k1", "k1", "k2", gap}},
		"no open record":    {func(l []string) string { return l[1] + l[2] + l[3] }, []string{"k1", "k2", gap, gap}},
		"not an event":      {func(l []string) string { return l[0] + l[1] + "x\n" + l[2] + l[3] }, []string{"k1", "k2", gap}},
		"of another source": {func(l []string) string { return l[0] + strings.Replace(l[1], "csi/n1", "csi/n2", 1) + l[2] + l[3] }, []string{"k2", gap, gap}},
		"empty file":        {func([]string) string { return "" }, []string{gap}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			events := filepath.Join(dir, "events")
			w := create(t, events, "r1", "csi/n1")
			w.Write(Event{Phase: Observed, Key: "k1"})
			w.Write(Event{Phase: Observed, Key: "k2"})
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(events, "csi", "n1.jsonl")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(b), "\n")
			if err := os.WriteFile(path, []byte(tc.damage(lines[:4])), 0o644); err != nil {
				t.Fatal(err)
			}
			got := merge(t, dir)
			slices.Sort(got) // gaps lie among events of the same instant
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Fatalf("want %q, got %q", tc.want, got)
			}
		})
	}
}

func TestCreateContinuesAKilledWriter(t *testing.T) {
	dir := t.TempDir()
	events := filepath.Join(dir, "events")
	w := create(t, events, "r1", "csi/n1")
	w.Write(Event{Phase: Observed, Key: "k1"})
	if _, err := w.file.WriteString(`{"at":1,"src":"csi/n1","seq":3`); err != nil { // killed in the middle of a write
		t.Fatal(err)
	}
	w = create(t, events, "r1", "csi/n1")
	w.Write(Event{Phase: Observed, Key: "k2"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := merge(t, dir)
	slices.Sort(got)
	if want := []string{"gap:csi/n1", "gap:csi/n1", "k1", "k2"}; !slices.Equal(got, want) {
		t.Fatalf("want %q, got %q", want, got)
	}
}

func TestCreateContinuesAClosedWriterWithoutAGap(t *testing.T) {
	dir := t.TempDir()
	for _, key := range []string{"k1", "k2"} {
		w := create(t, filepath.Join(dir, "events"), "r1", "csi/n1")
		w.Write(Event{Phase: Observed, Key: key})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := merge(t, dir); !slices.Equal(got, []string{"k1", "k2"}) {
		t.Fatalf("want k1 and k2 without a gap, got %q", got)
	}
}

func TestWriterIsSafeForConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	w := create(t, filepath.Join(dir, "events"), "r1", "backend")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				w.Write(Event{Phase: Observed, Key: "k"})
			}
		})
	}
	group.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := merge(t, dir); len(got) != 400 {
		t.Fatalf("want 400 events and no gap, got %d", len(got))
	}
}

func TestNilWriterDiscards(t *testing.T) {
	var w *Writer
	w.Write(Event{Phase: Observed})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTwoRunsInOneDirectoryAreRefused(t *testing.T) {
	dir := t.TempDir()
	events := filepath.Join(dir, "events")
	for _, run := range []string{"r1", "r2"} {
		if err := create(t, events, run, "csi/"+run).Close(); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "history.jsonl")
	err := Merge(events, Header{Run: "r1"}, out)
	var mixed *MixedRunsError
	if !errors.As(err, &mixed) || mixed.Got != "r2" || filepath.Base(mixed.File) != "r2.jsonl" {
		t.Fatalf("want a MixedRunsError that names r2.jsonl, got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Fatalf("want only events/ left, got %v (%v)", left, err)
	}
	if _, err := Create(events, "r3", "csi/r1"); err == nil || !strings.Contains(err.Error(), `belongs to run "r1"`) {
		t.Fatalf("want Create to refuse the file of run r1, got %v", err)
	}
}

func TestCreateRefusesBadSources(t *testing.T) {
	for _, source := range []string{"", "/etc/x", "../x", "a/../../x", "a//b", SourceMerge} {
		if w, err := Create(t.TempDir(), "r1", source); err == nil {
			t.Errorf("source %q: want an error, got a writer (%v)", source, w.Close())
		}
	}
}

func TestOpenRefusesDamagedHistories(t *testing.T) {
	dir := t.TempDir()
	w := create(t, filepath.Join(dir, "events"), "r1", "backend")
	w.Write(Event{Phase: Observed, Key: "k1"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	merge(t, dir)
	b, err := os.ReadFile(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	l := strings.SplitAfter(string(b), "\n") // header, open, k1, close, end
	for name, tc := range map[string]struct{ text, want string }{
		"whole":           {string(b), ""},
		"cut after line":  {l[0] + l[1] + l[2], "truncated"},
		"cut in a line":   {l[0] + l[1] + l[2][:10], "truncated"},
		"header only":     {l[0], "truncated"},
		"empty":           {"", ":1: want a history's header"},
		"other schema":    {strings.Replace(l[0], "/v1", "/v9", 1), `schema: want "headroom/history/v1", got "headroom/history/v9"`},
		"line removed":    {l[0] + l[1] + l[3] + l[4], ":4: want 3 events, got 2"},
		"two histories":   {string(b) + string(b), "two histories in one file"},
		"not an event":    {l[0] + l[1] + "{}\n" + l[3] + l[4], ":3: want an event with src, seq and ph"},
		"not JSON":        {l[0] + "x\n", ":2: want an event"},
		"other run":       {l[0] + strings.Replace(l[1], `"r1"`, `"r2"`, 1) + l[2] + l[3] + l[4], `events of run "r2" among those of run "r1"`},
		"damaged opening": {l[0] + strings.Replace(l[1], `"run":"r1"`, `"run":1`, 1), ":2: "},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.jsonl")
			if err := os.WriteFile(path, []byte(tc.text), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Open(path)
			if err == nil {
				defer r.Close()
				for _, err = range r.All() {
					if err != nil {
						break
					}
				}
			}
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("want no error, got %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path)):
				t.Fatalf("want an error with %q and the file's name, got %v", tc.want, err)
			}
		})
	}
}

func TestMergeOfNothingIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := Merge(dir, Header{}, filepath.Join(dir, "out")); err == nil || !strings.Contains(err.Error(), "no events") {
		t.Fatalf("want an error about no events, got %v", err)
	}
}

// The library words a misfit by chance, anew in each process; ours says one thing, so that the report of one history is the same bytes each time.
func TestDecodeSaysOneThing(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		into any
		want string
	}{
		"array": {`[1]`, &Spec{}, `event spec#1: body: JSON array at the top does not fit Go type history.Spec`},
		"object": {`{"node":{}}`, &struct {
			Node string `json:"node"`
		}{}, `event spec#1: body: JSON object at /node does not fit Go type string`},
		"fraction": {`{"limit":1.5}`, &struct {
			Limit int `json:"limit"`
		}{}, `event spec#1: body: JSON number 1.5 at /limit does not fit Go type int: invalid syntax`},
		"wide": {`{"limit":9223372036854775808}`, &struct {
			Limit int64 `json:"limit"`
		}{}, `event spec#1: body: JSON number 9223372036854775808 at /limit does not fit Go type int64: value out of range`},
		"duration": {`{"d":"soon"}`, &struct {
			D Duration `json:"d"`
		}{}, `event spec#1: body: JSON string at /d does not fit Go type history.Duration: time: invalid duration "soon"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Event{Source: "spec", Seq: 1, Body: json.RawMessage(c.body)}.Decode(c.into)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestDurationNeedsAUnit(t *testing.T) {
	var d Duration
	if err := d.UnmarshalText([]byte("5")); err == nil {
		t.Fatal("want an error for a number without a unit")
	}
	if err := d.UnmarshalText([]byte("5s")); err != nil || d != Duration(5*time.Second) {
		t.Fatalf("want 5s, got %v (%v)", d, err)
	}
}
