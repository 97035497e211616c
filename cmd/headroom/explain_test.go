package main

import (
	"strings"
	"testing"

	"headroom/e2e/framework/run"
	"headroom/e2e/invariants"
)

func TestExplainEveryRow(t *testing.T) {
	list, err := try(t, "explain")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range invariants.All() {
		out, err := try(t, "explain", i.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append([]string{i.Name + "  (invariant)", string(i.Boundary), "look at", "evidence/" + i.Name, "logs/", "known "}, i.Needs...) {
			if !strings.Contains(out, want) {
				t.Errorf("explain %s: want %q in\n%s", i.Name, want, out)
			}
		}
		for _, k := range i.KnownUpstream {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(k.Source), " ")) {
				t.Errorf("explain %s: want the known defect %q in\n%s", i.Name, k.Source, out)
			}
		}
		if !strings.Contains(list, i.Name) {
			t.Errorf("explain without a name: want %q in\n%s", i.Name, list)
		}
	}
	for _, r := range run.Requirements() {
		out, err := try(t, "explain", r.ID)
		if err != nil || !strings.Contains(out, r.ID+"  (requirement)") || !strings.Contains(out, "--focus '^"+r.ID+"$'") || !strings.Contains(list, r.ID) {
			t.Errorf("explain %s: got %v and\n%s", r.ID, err, out)
		}
	}
	if out, _ := try(t, "explain", "class-is-honest"); !strings.Contains(out, "headroom run --driver all-internal") {
		t.Errorf("want the persona that breaks it in\n%s", out)
	}
}

// completions are what a shell offers for the last word.
func completions(t *testing.T, words ...string) string {
	t.Helper()
	out, err := try(t, append([]string{"__complete"}, words...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCompletion(t *testing.T) {
	for _, tc := range []struct {
		words string // "_" is an empty last word
		want  []string
		not   string
	}{
		{"run --focus count-", []string{"count-drop\t", "count-raise\t"}, "steady\t"},
		{"run --driver _", []string{"steady\t", "all-internal\t"}, "count-drop"},
		{"up --driver un", []string{"unlimited-on-outage\t"}, "count-drop\t"},
		{"run --label-filter _", []string{"slow", "smoke"}, "steady"},
		{"run -o _", []string{"table", "json", "yaml"}, "steady"},
		{"check -o y", []string{"yaml"}, "steady"},
		{"run --rerun-failed _", []string{"ShellCompDirectiveFilterDirs"}, ""},
		{"check _", []string{"ShellCompDirectiveFilterDirs"}, ""},
		{"check x _", []string{"ShellCompDirectiveNoFileComp"}, "FilterDirs"},
		{"explain never", []string{"never-unbounded\t"}, "steady\t"},
		{"explain count", []string{"count-drop\t"}, "steady\t"},
		{"explain x _", []string{":4"}, "never-unbounded"},
	} {
		words := strings.Fields(tc.words)
		if n := len(words) - 1; words[n] == "_" {
			words[n] = ""
		}
		out := completions(t, words...)
		for _, want := range tc.want {
			if !strings.Contains(out, want) {
				t.Errorf("headroom %s: want %q offered, got\n%s", tc.words, want, out)
			}
		}
		if tc.not != "" && strings.Contains(out, tc.not) {
			t.Errorf("headroom %s: want no %q, got\n%s", tc.words, tc.not, out)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, err := try(t, "completion", shell); err != nil || !strings.Contains(out, "headroom") {
			t.Errorf("completion %s: got %v and %d bytes", shell, err, len(out))
		}
	}
}
