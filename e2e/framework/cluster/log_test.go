package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	var many strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&many, "line %d\n", i)
	}
	for _, c := range []struct {
		name, content string
		want          []string
	}{
		{"empty", "", nil},
		{"short", "a\nb\n", []string{"a", "b"}},
		{"no newline at the end", "a\nb\nc\nd", []string{"b", "c", "d"}},
		{"longer than the window", many.String(), []string{"line 19997", "line 19998", "line 19999"}},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := LastLines(path, 3)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: want %q, got %q, %v", c.name, c.want, got, err)
		}
	}
	if text := LogTail("/nowhere/log"); !strings.Contains(text, "/nowhere/log cannot be read") {
		t.Errorf("tail of a missing log: got %q", text)
	}
}
