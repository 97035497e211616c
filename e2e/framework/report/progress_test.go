package report

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

func TestProgress(t *testing.T) {
	s := newScript()
	s.add(0.5, "spec/p1", history.Observed, history.KeyOpen, map[string]string{"run": "r"})
	s.spec(12.3, 54.4, "conformance/count-drop", history.OK, history.Spec{Outcome: "Held"})
	s.spec(55, 56, "conformance/outage", history.Fail, history.Spec{Message: "want 8, got \x1b[31mnone\nlast error: " + strings.Repeat("word ", 30)})
	s.spec(57, 58, "conformance/slow", history.Unknown, history.Spec{Message: "the environment failed"})
	s.spec(59, 60, "conformance/gate-off", history.OK, history.Spec{Skipped: true, Message: "no gate"})
	s.add(61, "csi/n1", history.OK, "NodeGetInfo", nil)
	s.add(62, "spec/p1", history.OK, "conformance/lost-start", history.Spec{})
	s.add(63, "spec/p1", history.OK, "conformance/bad", []int{1})
	s.add(3700, "spec/p1", history.Invoke, "conformance/late", history.Spec{})
	var b bytes.Buffer
	p := Progress(&b)
	for e := range s.all() {
		p.Observe(e)
	}
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	golden(t, "progress.txt", b.Bytes())
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestProgressKeepsTheWriteError(t *testing.T) {
	p := Progress(failing{})
	p.Note(0, "x")
	if p.Err() == nil || !strings.Contains(p.Err().Error(), "disk full") {
		t.Errorf("want the write error, got %v", p.Err())
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFollowerReadsAGrowingFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run [1]", DirEvents) // a name that a pattern would read otherwise
	var out bytes.Buffer
	f := newFollower(dir, &out)
	expect := func(when, want string) {
		t.Helper()
		if err := f.read(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := out.String(); got != want {
			t.Fatalf("%s: want\n%s got\n%s", when, want, got)
		}
	}
	expect("nothing there yet", "")
	if err := os.MkdirAll(filepath.Join(dir, "spec"), 0o755); err != nil {
		t.Fatal(err)
	}
	p1, p2 := filepath.Join(dir, "spec", "p1.jsonl"), filepath.Join(dir, "spec", "p2.jsonl")
	end := `{"at":3500000000,"src":"spec/p1","seq":2,"ph":"ok","key":"a","body":{"outcome":"Held"}}` + "\n"
	appendTo(t, p1, `{"at":1000000000,"src":"spec/p1","seq":1,"ph":"invoke","key":"a","body":{}}`+"\n"+end[:30])
	want := "   0.0s  ▸ a\n"
	expect("half a line", want)
	appendTo(t, p1, end[30:60])
	expect("more of the line", want)
	appendTo(t, p1, end[60:])
	appendTo(t, p2, `{"at":2000000000,"src":"spec/p2","seq":1,"ph":"invoke","key":"b","body":{}}`+"\n"+"garbage\n")
	want += "   1.0s  ▸ b\n   2.5s  ✓ a held 2.5s\n   2.5s  ! " + p2 + ":2: want an event, got garbage\n"
	expect("two files, by time", want)
	expect("nothing new", want)
}

// lines passes on what is written, line by line or more at once.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, done := make(lines, 100), make(chan error, 1)
	go func() { done <- Follow(ctx, filepath.Join(dir, DirEvents), out) }()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-out:
			if !strings.Contains(got, want) {
				t.Fatalf("want %q, got %q", want, got)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("no %q after 30s", want)
		}
	}
	w, err := history.Create(filepath.Join(dir, DirEvents), "r", "spec/p1")
	if err != nil {
		t.Fatal(err)
	}
	w.Write(history.Event{Phase: history.Invoke, Key: "a", Body: history.Encode(history.Spec{})})
	expect("▸ a")
	w.Write(history.Event{Phase: history.OK, Key: "a", Body: history.Encode(history.Spec{})})
	expect("✓ a held")
	w.Write(history.Event{Phase: history.Invoke, Key: "b", Body: history.Encode(history.Spec{})})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cancel() // what was written before is still printed
	expect("▸ b")
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Follow does not end after 30s")
	}
}

func TestFollowReportsWhatItCannotDo(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	bad, good := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(bad, "spec", "p1.jsonl"), 0o755); err != nil { // a directory where a file should be
		t.Fatal(err)
	}
	if err := Follow(ctx, bad, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "p1.jsonl") {
		t.Errorf("want an error that names the file, got %v", err)
	}
	writeSpecs(t, good, "r", "spec/p1")
	if err := Follow(ctx, filepath.Join(good, DirEvents), failing{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("want the write error, got %v", err)
	}
}
