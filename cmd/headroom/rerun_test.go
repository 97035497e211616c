package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
)

// ranSpecs makes a run directory in which the specs ended as given; in the scopes of `over`, the backend accepted one attachment too many.
func ranSpecs(t *testing.T, driver string, ended map[string]history.Phase, over ...string) string {
	t.Helper()
	dir := t.TempDir()
	h := history.Header{Schema: history.Schema, Run: "r1", Params: history.Params{Driver: history.DriverParams{Name: driver}}}
	specs, err := history.Create(filepath.Join(dir, report.DirEvents), h.Run, "spec/p1")
	if err != nil {
		t.Fatal(err)
	}
	for id, phase := range ended {
		specs.Write(history.Event{Phase: history.Invoke, Key: id, Body: history.Encode(history.Spec{})})
		specs.Write(history.Event{Phase: phase, Key: id, Scope: "scope-" + id, Body: history.Encode(history.Spec{Message: "want 8, got 9"})})
	}
	nodes, err := history.Create(filepath.Join(dir, report.DirEvents), h.Run, "api/nodes")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range over {
		nodes.Write(history.Event{Phase: history.Observed, Key: "n-" + scope, Node: "n-" + scope, Scope: scope, Body: history.Encode(history.Node{})})
	}
	backend, err := history.Create(filepath.Join(dir, report.DirEvents), h.Run, "backend")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range over {
		e := history.Event{Node: "n-" + scope}
		e.Phase, e.Key, e.Body = history.Observed, "quota", history.Encode(history.Backend{Quota: &history.Quota{Limit: 1}})
		backend.Write(e)
		e.Phase, e.Key, e.Op, e.Body = history.Invoke, "attach", scope, history.Encode(history.Backend{Volume: "v"})
		backend.Write(e)
		e.Phase, e.Body = history.OK, history.Encode(history.Backend{Volume: "v", Decision: history.Accepted, Quota: &history.Quota{Limit: 1, Attached: 2}})
		backend.Write(e)
	}
	for _, w := range []*history.Writer{specs, nodes, backend} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := history.Merge(filepath.Join(dir, report.DirEvents), h, filepath.Join(dir, report.FileHistory)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// chosen is what `headroom run` would run, with which driver.
func chosen(t *testing.T, sel selection, args ...string) ([]string, string, error) {
	t.Helper()
	var o run.Options
	cmd := &cobra.Command{Use: "run"}
	runFlags(cmd, &o)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	err := sel.choose(cmd, &o)
	slices.Sort(sel.specs)
	return sel.specs, o.Driver, err
}

func TestRerunFailed(t *testing.T) {
	mixed := map[string]history.Phase{
		"count-drop": history.OK, "count-raise": history.Fail, "stale-write": history.Unknown, "attach-classes": history.OK,
	}
	for name, tc := range map[string]struct {
		dir   string
		focus string
		args  []string
		want  string // ids, or part of the error
		with  string // driver
		fails bool
	}{
		"failed and open":        {dir: ranSpecs(t, "all-internal", mixed), want: "count-raise stale-write", with: "all-internal"},
		"violated meanwhile":     {dir: ranSpecs(t, "steady", mixed, "scope-count-drop"), want: "count-drop count-raise stale-write", with: "steady"},
		"narrowed":               {dir: ranSpecs(t, "steady", mixed), focus: "stale", want: "stale-write", with: "steady"},
		"another driver":         {dir: ranSpecs(t, "mine", mixed), args: []string{"--driver", "steady"}, want: "count-raise stale-write", with: "steady"},
		"narrowed to nothing":    {dir: ranSpecs(t, "steady", mixed), focus: "count-drop", want: "none of which --focus", fails: true},
		"a driver from a file":   {dir: ranSpecs(t, "mine", mixed), want: "give its file with --driver", fails: true},
		"nothing failed":         {dir: ranSpecs(t, "steady", map[string]history.Phase{"count-drop": history.OK}), want: "none to run again", fails: true},
		"a spec that is no more": {dir: ranSpecs(t, "steady", map[string]history.Phase{"old": history.Fail}), want: `spec "old"`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			ids, driver, err := chosen(t, selection{rerun: tc.dir, focus: tc.focus}, tc.args...)
			if tc.fails {
				if exitCode(err) != 2 || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("want exit code 2 and %q, got %v", tc.want, err)
				}
				return
			}
			if err != nil || strings.Join(ids, " ") != tc.want || driver != tc.with {
				t.Errorf("want %s with driver %s, got %v with %s (%v)", tc.want, tc.with, ids, driver, err)
			}
		})
	}
	short := slices.DeleteFunc(run.Requirements(), func(r run.Requirement) bool { return slices.Contains(r.Labels, run.LabelLong) || len(r.Lacks) > 0 })
	if all, driver, err := chosen(t, selection{}); err != nil || len(all) != len(short) || driver != "steady" {
		t.Errorf("without --rerun-failed: want all specs with steady, got %v with %s (%v)", all, driver, err)
	}
}
