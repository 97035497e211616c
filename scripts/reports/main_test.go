package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headroom/e2e/framework/report"
)

// fake plays headroom: what it does in a run is up to the driver.
const fake = `#!/usr/bin/env bash
set -eu
echo "$@" >>%[1]s/calls
if [[ $1 == binaries ]]; then
	[[ ${@: -1} != v1.35.4 ]] || { echo "no such binary" >&2; exit 3; }
	exit 0
fi
while (($# > 0)); do
	case $1 in --driver) driver=$2 ;; --run-dir) dir=$2 ;; esac
	shift
done
mkdir "$dir"
case $driver in
steady) sed "s#^\(driver: \).*#\1'$dir/x and $HOME/.cache/y'#" %[1]s/report.yaml >"$dir/report.yaml"; exit 1 ;;
hostpath) exit 3 ;;
hostpath-gate) [[ $dir == *-2 ]] || exit 3; cp %[1]s/report.yaml "$dir/" ;;
hostpath-random) echo "kind: Report" >"$dir/report.yaml" ;;
esac
`

// playAll runs the command with the fake, and returns the exit code, the output, and the directory of the archive.
func playAll(t *testing.T, ctx context.Context, args ...string) (code int, out, dir string) {
	t.Helper()
	dir = t.TempDir()
	good, err := os.ReadFile("../../docs/reports/hostpath-v1.36.3.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "headroom")
	for path, text := range map[string]string{script: fmt.Sprintf(fake, dir), filepath.Join(dir, "report.yaml"): string(good)} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "archive"), 0o755); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	t.Setenv("HOME", "/home/somebody")
	code = reports(ctx, append([]string{"-headroom", script, "-to", filepath.Join(dir, "archive"), "-runs", filepath.Join(dir, "runs")}, args...), &b, &b)
	return code, b.String(), dir
}

// TestOneThatIsLostTakesNoOther: a driver that cannot be played, one whose report is none, and a version whose components cannot be had leave the rest.
func TestOneThatIsLostTakesNoOther(t *testing.T) {
	code, out, dir := playAll(t, t.Context(), "-kubernetes", "1.35 1.36", "-only", "steady,hostpath,hostpath-gate,hostpath-random")
	if code != 1 || !strings.Contains(out, "2 of 8 reports archived") {
		t.Errorf("want exit code 1 with 2 of 8 archived, got %d\n%s", code, out)
	}
	out = regexp.MustCompile(`in \d+s: `).ReplaceAllString(out, "in TIME: ")
	for _, want := range []string{
		"steady v1.35.4 in TIME: lost: get the components", "steady v1.36.3 in TIME: core: partial", "hostpath v1.36.3 in TIME: lost: hostpath-v1.36.3-1", "hostpath-v1.36.3-2",
		"hostpath-random v1.36.3 in TIME: lost", "its output is in ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want output with %q, got\n%s", want, out)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "archive", "*"))
	if err != nil || len(found) != 2 {
		t.Errorf("want two files in the archive and no draft, got %q, %v", found, err)
	}
	r, err := report.Read(filepath.Join(dir, "archive", "steady-v1.36.3.yaml"))
	if err != nil || r.Driver != "RUN-DIR/x and PATH/y" {
		t.Errorf("want the report without paths of the machine, got %q, %v", r.Driver, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "archive", "steady-v1.36.3.yaml"))
	if err != nil || !strings.HasPrefix(string(text), "# made with: headroom run --kubernetes v1.36.3 --driver steady --seed 1 --deadline 12m\n# shows: the reference driver\n") {
		t.Errorf("want the command first, got %.200q, %v", text, err)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if n := strings.Count(string(calls), "fetch --kubernetes v1.35.4"); err != nil || n != 1 {
		t.Errorf("want what cannot be had asked for once, got it %d times, %v", n, err)
	}
}

// TestWhatWasArchivedStays where the play that should replace it is lost.
func TestWhatWasArchivedStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hostpath-v1.36.3.yaml")
	if err := os.WriteFile(path, []byte("as it was"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := playAll(t, t.Context(), "-to", dir, "-only", "hostpath"); code != 1 {
		t.Errorf("want exit code 1, got %d\n%s", code, out)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "as it was" {
		t.Errorf("want what was archived as it was, got %q, %v", text, err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, out, _ := playAll(t, ctx, "-only", "steady"); code != 130 || !strings.Contains(out, "interrupted") {
		t.Errorf("want exit code 130, got %d\n%s", code, out)
	}
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a play":    {[]string{"-only", "stedy"}, `-only "stedy": want some of steady, hostpath, csi-mock`},
		"a version": {[]string{"-kubernetes", "1.99"}, "-kubernetes: "},
		"none":      {[]string{"-kubernetes", " "}, "want at least one version"},
		"arguments": {[]string{"steady"}, "want no arguments"},
		"a flag":    {[]string{"-all"}, "-all"},
	} {
		if code, out, _ := playAll(t, t.Context(), c.args...); code != 2 || !strings.Contains(out, c.want) {
			t.Errorf("%s: want exit code 2 and %q, got %d\n%s", name, c.want, code, out)
		}
	}
}

// TestPlays: each driver is there, and what builds it is a target of the Makefile.
func TestPlays(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plays {
		if strings.Contains(p.driver, "/") {
			if _, err := os.Stat(filepath.Join("../..", p.driver)); err != nil {
				t.Error(err)
			}
		}
		if p.program != "" && !strings.Contains(string(makefile), "\n"+p.program+": ##") {
			t.Errorf("%s: want a make target %q", p.name, p.program)
		}
	}
}
