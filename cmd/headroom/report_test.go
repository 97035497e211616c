package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
)

func TestReportWritesAPage(t *testing.T) {
	dir := finishedRun(t, history.Fail, false) // what the page shows does not change the exit code
	elsewhere := filepath.Join(t.TempDir(), "page.html")
	for _, tc := range []struct {
		args []string
		path string
	}{{[]string{dir}, filepath.Join(dir, "timeline.html")}, {[]string{dir, "--html", elsewhere}, elsewhere}} {
		out, err := try(t, append([]string{"report"}, tc.args...)...)
		if err != nil || strings.TrimSpace(out) != tc.path {
			t.Fatalf("report %v: want %s written, got %q (%v)", tc.args, tc.path, out, err)
		}
		text, err := os.ReadFile(tc.path)
		if err != nil || !strings.Contains(string(text), "want 8, got 9") || !strings.Contains(string(text), "conformance/a") {
			t.Errorf("report %v: want the spec and its failure in the page (%v)", tc.args, err)
		}
	}
}

func TestReportRefuses(t *testing.T) {
	dir := finishedRun(t, history.OK, true)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no directory":      {nil, 2, "run printed at its end"},
		"not there":         {[]string{"/nowhere"}, 2, "does not exist"},
		"no run":            {[]string{t.TempDir()}, 2, "no run directory"},
		"cannot be written": {[]string{dir, "--html", filepath.Join(dir, "no", "such", "page.html")}, 3, "page.html"},
	} {
		out, err := try(t, append([]string{"report"}, tc.args...)...)
		if exitCode(err) != tc.code || !strings.Contains(err.Error(), tc.want) || out != "" {
			t.Errorf("%s: want exit code %d and %q, got %v and %q", name, tc.code, tc.want, err, out)
		}
	}
}
