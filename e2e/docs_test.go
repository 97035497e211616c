package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headroom/drivers"
	"headroom/e2e/invariants"
)

func read(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDocsListEveryInvariant(t *testing.T) {
	text := read(t, "../docs/invariants.md")
	for _, i := range invariants.All() {
		if row := "| `" + i.Name + "` | " + string(i.Boundary) + " |"; !strings.Contains(text, row) {
			t.Errorf("docs/invariants.md: want a row that begins %q", row)
		}
	}
	if rows := strings.Count(text, "\n| `"); rows != len(invariants.All()) {
		t.Errorf("docs/invariants.md: want %d rows, one for each invariant, got %d", len(invariants.All()), rows)
	}
}

func TestDocsDriverLoads(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "../docs/writing-a-driver.md"), "```yaml\n")
	yaml, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/writing-a-driver.md: want a yaml example")
	}
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := drivers.Load(path); err != nil {
		t.Errorf("docs/writing-a-driver.md: the example: %v", err)
	}
}

// link is a link of Markdown to a file of the repository.
var link = regexp.MustCompile(`\]\(([^):#]+)\)`)

func TestDocsLinksLead(t *testing.T) {
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatalf("want documents, got %v (error: %v)", docs, err)
	}
	links := 0
	for _, path := range append(docs, "../README.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, path), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: link %q: %v", path, m[1], err)
			}
		}
	}
	if links == 0 {
		t.Error("want links, got none")
	}
}
