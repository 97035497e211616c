package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/report"
	"headroom/e2e/framework/reproduce"
)

// TestCopiesAreCountedTogether holds that copies are what they are copies of under names of their own, and that what became of them is one row.
func TestCopiesAreCountedTogether(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "full.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(goodStory, "NAME", "full", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	stories, err := loadStories([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	all, err := copies(stories, 3)
	if err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(dir, "results.yaml")
	kept, err := readResults(results)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	for i, status := range []report.Status{report.Held, report.Violated, report.Inconclusive} {
		if want := []string{"full-1", "full-2", "full-3"}[i]; all[i].Metadata.Name != want || all[i].of.Metadata.Name != "full" {
			t.Errorf("copy %d: want %s of full, got %s of %s", i, want, all[i].Metadata.Name, all[i].of.Metadata.Name)
		}
		r.Requirements = append(r.Requirements, report.Requirement{ID: "scenario/" + all[i].Metadata.Name, Status: status})
	}
	for range 2 {
		if err := kept.add(ranStory(t, story12(late)), r, all); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	read, err := reproduce.Read(results, data)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := read.Current(stories[0].Scenario)
	if err != nil || len(rows) != 1 || rows[0].String() != "2 of 4 (2 more told nothing)" || kept.now.Rows[0].String() != rows[0].String() {
		t.Errorf("want one row of six plays, got %v, %v", rows, err)
	}
}
