package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// module is a requirement of go.mod.
type module struct {
	Path     string
	Indirect bool
}

// mismarked lists the modules whose "// indirect" is not what the imports say: a module that a package of this one imports is direct.
func mismarked(required []module, imported map[string]bool) (wrong []string) {
	for _, m := range required {
		switch {
		case m.Indirect && imported[m.Path]:
			wrong = append(wrong, m.Path+" is imported and marked indirect")
		case !m.Indirect && !imported[m.Path]:
			wrong = append(wrong, m.Path+" is not imported and not marked indirect")
		}
	}
	return wrong
}

// TestGoModMarks holds that the marks in go.mod are those of `go mod tidy`, without asking the network.
func TestGoModMarks(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json", "../go.mod").Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var file struct{ Require []module }
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	from := map[string]string{} // package -> module
	var own []unit
	for _, u := range list(t) {
		if u.Module == nil {
			continue
		}
		from[u.ImportPath] = u.Module.Path
		if u.Module.Path == "headroom" {
			own = append(own, u)
		}
	}
	imported := map[string]bool{}
	for _, u := range own {
		for _, i := range slices.Concat(u.Imports, u.TestImports, u.XTestImports) {
			imported[from[i]] = true
		}
	}
	for _, wrong := range mismarked(file.Require, imported) {
		t.Errorf("go.mod: %s: run go mod tidy", wrong)
	}
}

func TestGoModMarksAreSeen(t *testing.T) {
	required := []module{{"direct", false}, {"indirect", true}, {"missed", true}, {"left", false}}
	got := strings.Join(mismarked(required, map[string]bool{"direct": true, "missed": true}), "; ")
	if want := "missed is imported and marked indirect; left is not imported and not marked indirect"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}
