package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write makes a spec process's file: its number, then events, each a pair of phase and key.
func write(t *testing.T, s *Session, process string, pid int, events ...[2]string) {
	t.Helper()
	source := "spec/" + process
	text := fmt.Sprintf(`{"at":1,"src":%q,"seq":1,"ph":"observed","key":"writer/open","body":{"run":"r","pid":%d}}`+"\n", source, pid)
	for i, e := range events {
		text += fmt.Sprintf(`{"at":%d,"src":%q,"seq":%d,"ph":%q,"key":%q}`+"\n", i+2, source, i+2, e[0], e[1])
	}
	path := filepath.Join(s.events(), source+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// dead is the number of no process: Linux gives none above 4194304, and that of one that has ended may be another's by the time it is looked for.
const dead = 1<<22 + 1

func TestAwaitDeathTellsTheDeadFromTheEnded(t *testing.T) {
	s := &Session{Dir: t.TempDir()}
	write(t, s, "p1", os.Getppid(), [2]string{"invoke", "a"})
	write(t, s, "p2", dead, [2]string{"invoke", "b"}, [2]string{"observed", "writer/close"})
	write(t, s, "runner", os.Getpid())
	ctx, cancel := context.WithTimeout(t.Context(), 5*deathInterval)
	defer cancel()
	if err := s.AwaitDeath(ctx); err != nil {
		t.Fatalf("one lives and one closed its history: want nil, got %v", err)
	}
	write(t, s, "p3", dead, [2]string{"invoke", "c"})
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	want := fmt.Sprintf("spec process p3 (process %d) died", dead)
	if err := s.AwaitDeath(ctx); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("want %q, got %v", want, err)
	}
}

func TestComplete(t *testing.T) {
	s := &Session{Dir: t.TempDir()}
	write(t, s, "p1", os.Getppid(), [2]string{"invoke", "a"}, [2]string{"ok", "a"}, [2]string{"invoke", "b"})
	write(t, s, "p2", os.Getppid(), [2]string{"invoke", "c"})
	write(t, s, "runner", os.Getpid())
	for _, tc := range []struct {
		procs int
		specs string
		want  string // part of the error; none when empty
	}{
		{2, "a b c", ""},
		{2, "a", ""},
		{3, "a b c", "want 3 spec processes, got 2"},
		{2, "a b c d e", "never begun: d, e"},
	} {
		err := s.Complete(tc.procs, strings.Fields(tc.specs))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%d processes, specs %s: want %q, got %v", tc.procs, tc.specs, tc.want, err)
		}
	}
}
