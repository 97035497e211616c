package invariants

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// otherPaces are what Judge's own is held against: nothing is settled before the end and all is kept, or all that can be is settled after each event.
var otherPaces = map[string]pace{"kept to the end": {every: model.Forever}, "settled after each event": {}}

// told renders what a report says of each invariant that it says something of.
func told(rep Report) string {
	out := ""
	for _, r := range rep.Results {
		if len(r.Verdicts) == 0 && r.Note == "" {
			continue
		}
		b, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			return err.Error()
		}
		out += string(b) + "\n"
	}
	return out
}

// judgeFileAt judges a file by all invariants.
func judgeFileAt(t *testing.T, path string, p pace) Report {
	t.Helper()
	r, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	return judge(r.All(), r.Header(), p)
}

// fixtures are the histories of this repository.
func fixtures(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{filepath.Join(goldenDir, "*", "*.jsonl"), "../../fixtures/runs/*.jsonl"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("want histories in %s, got %v, %v", pattern, paths, err)
		}
		all = append(all, paths...)
	}
	return all
}

// TestSettlingOnTheWayChangesNoVerdict: what is forgotten on the way was not needed.
func TestSettlingOnTheWayChangesNoVerdict(t *testing.T) {
	for _, path := range fixtures(t) {
		want := told(judgeFileAt(t, path, steady))
		for name, p := range otherPaces {
			if got := told(judgeFileAt(t, path, p)); got != want {
				t.Errorf("%s, %s: want\n%s\ngot\n%s", path, name, want, got)
			}
		}
	}
}

// TestSettlingTooEarlyIsSeen holds that the comparison can fail: a history that is settled before its events have come is judged otherwise.
func TestSettlingTooEarlyIsSeen(t *testing.T) {
	other := 0
	for _, path := range fixtures(t) {
		if told(judgeFileAt(t, path, steady)) != told(judgeFileAt(t, path, pace{hasty: time.Minute})) {
			other++
		}
	}
	if other == 0 {
		t.Error("want other verdicts of some histories when all is held to be settled a minute too early")
	}
}

// TestLongHistoriesSettleAlike does the same for histories that are long enough for most to be forgotten.
func TestLongHistoriesSettleAlike(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	writeLoad(t, path, 20_000, 10)
	want := told(judgeFileAt(t, path, pace{every: model.Forever}))
	for _, p := range []pace{steady, {every: time.Second}} {
		if got := told(judgeFileAt(t, path, p)); got != want {
			t.Errorf("every %s: want\n%s\ngot\n%s", p.every, want, got)
		}
	}
	for name, write := range map[string]func(int) ([]history.Event, history.Header){"busy": busy, "long": long} {
		events, h := write(5_000)
		want := told(judge(sequence(events), h, pace{every: model.Forever}))
		for _, p := range []pace{steady, {}} {
			if got := told(judge(sequence(events), h, p)); got != want {
				t.Errorf("%s, every %s: want\n%s\ngot\n%s", name, p.every, want, got)
			}
		}
	}
}

// TestWhatIsKeptDoesNotGrow judges two histories, one ten times as long as the other, and looks at what Judge still holds at their ends.
func TestWhatIsKeptDoesNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("it judges 330,000 events")
	}
	const nodes = 20 // so few that the shorter history is already longer than what is looked back to
	few, many := filepath.Join(t.TempDir(), "few.jsonl"), filepath.Join(t.TempDir(), "many.jsonl")
	writeLoad(t, few, 30_000, nodes)
	writeLoad(t, many, 150_000, nodes)
	short, long := retained(t, few, steady), retained(t, many, steady)
	t.Logf("30,000 events: %d kB, 150,000 events: %d kB", short/1000, long/1000)
	if float64(long) > 1.2*float64(short) {
		t.Errorf("want at most 1.2 times as much kept of 150,000 events as of 30,000, got %d and %d bytes", long, short)
	}
	if all := retained(t, many, pace{every: model.Forever}); all < 2*long {
		t.Errorf("want the measure to see what is kept when nothing is forgotten, got %d bytes, and %d on the way", all, long)
	}
}

// retained is how much the heap holds more at the end of a history than before it.
func retained(t *testing.T, path string, p pace) uint64 {
	t.Helper()
	r, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	before := heap()
	var after uint64
	rep := judge(func(yield func(history.Event, error) bool) {
		for e, err := range r.All() {
			if !yield(e, err) {
				return
			}
		}
		after = heap()
	}, r.Header(), p)
	if rep.Err != nil || after == 0 {
		t.Fatalf("want the history judged to its end, got %d events, %v", rep.Events, rep.Err)
	}
	return after - min(before, after)
}

// heap is how much the heap holds that is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
