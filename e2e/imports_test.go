// Package e2e holds the rules of who may import whom. There is no code in it.
package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unit is a package of this module as `go list -deps -test` shows it: the package, its tests or its test binary.
type unit struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Deps       []string // all that it needs, however indirectly
	Dir        string
	GoFiles    []string
	CgoFiles   []string

	Imports, TestImports, XTestImports []string
}

// pkg is the package's path without what `go list -test` adds to it: "x [x.test]", "x_test [x.test]", "x.test".
func (u unit) pkg() string {
	path, _, _ := strings.Cut(u.ImportPath, " ")
	return strings.TrimSuffix(strings.TrimSuffix(path, ".test"), "_test")
}

// below reports whether path is root, or inside it.
func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// judges read histories; they and what makes histories never need each other, however indirectly.
var (
	judges = []string{"headroom/e2e/invariants"}
	makers = []string{"headroom/chaos", "headroom/drivers", "headroom/e2e/framework/workload", "headroom/e2e/framework/cluster"}
)

// crossings lists who breaks the separation of judges and makers.
func crossings(units []unit) (broken []string) {
	among := func(path string, roots []string) bool {
		return slices.ContainsFunc(roots, func(r string) bool { return below(path, r) })
	}
	for _, u := range units {
		for _, dep := range u.Deps {
			from, to := u.pkg(), unit{ImportPath: dep}.pkg()
			if among(from, judges) && among(to, makers) || among(from, makers) && among(to, judges) {
				broken = append(broken, fmt.Sprintf("%s needs %s", u.ImportPath, to))
			}
		}
	}
	return broken
}

// jsonv2 is encoding/json/v2 of the standard library, a module before Go 1.27.
const jsonv2 = "github.com/go-json-experiment/json"

// outside lists what a package that may use the standard library only needs beyond it.
func outside(units []unit, pkg string) (broken []string) {
	standard := map[string]bool{}
	for _, u := range units {
		standard[u.ImportPath] = u.Standard || below(u.ImportPath, jsonv2)
	}
	for _, u := range units {
		if u.pkg() != pkg {
			continue
		}
		for _, dep := range u.Deps {
			if !standard[dep] && (unit{ImportPath: dep}).pkg() != pkg {
				broken = append(broken, fmt.Sprintf("%s needs %s", u.ImportPath, dep))
			}
		}
	}
	return broken
}

// data are the packages that scenarios may need of this module: they describe a run, and anything that starts one would come with them.
var data = []string{
	"headroom/e2e/framework/scenario", "headroom/e2e/framework/strict", "headroom/e2e/framework/strict/schema", "headroom/e2e/framework/versions",
	"headroom/e2e/framework/history", "headroom/kind-configs",
}

// beyond lists what a package needs of this module besides what is allowed.
func beyond(units []unit, root string, allowed []string) (broken []string) {
	for _, u := range units {
		if u.pkg() != root {
			continue
		}
		for _, dep := range u.Deps {
			if path := (unit{ImportPath: dep}).pkg(); below(path, "headroom") && !slices.Contains(allowed, path) {
				broken = append(broken, fmt.Sprintf("%s needs %s", u.ImportPath, path))
			}
		}
	}
	return broken
}

const ginkgo = "github.com/onsi/ginkgo/v2"

// mentions reports whether a file uses ginkgo's function name, under whatever name it imports ginkgo.
func mentions(f *ast.File, name string) (found bool) {
	local := ""
	for _, i := range f.Imports {
		if path, _ := strconv.Unquote(i.Path.Value); path == ginkgo {
			local = "ginkgo"
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	if local == "" {
		return false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			found = found || ok && x.Name == local && n.Sel.Name == name
		case *ast.Ident:
			found = found || local == "." && n.Name == name
		}
		return !found
	})
	return found
}

// list is every package of the module and what it needs.
func list(t *testing.T) []unit {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Standard,Module,Deps,Dir,GoFiles,CgoFiles,Imports,TestImports,XTestImports", "headroom/...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var units []unit
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var u unit
		if err := in.Decode(&u); errors.Is(err, io.EOF) {
			return units
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		units = append(units, u)
	}
}

func TestImports(t *testing.T) {
	units := list(t)
	for _, known := range []string{"headroom/e2e/invariants", "headroom/e2e/framework/history", "headroom/e2e/suite", "headroom/drivers"} {
		if !slices.ContainsFunc(units, func(u unit) bool { return u.pkg() == known }) {
			t.Fatalf("no package %q: the rules speak of nothing", known)
		}
	}
	for _, broken := range crossings(units) {
		t.Errorf("%s: invariants judge the history only, and nobody else may ask them", broken)
	}
	for _, broken := range outside(units, "headroom/e2e/framework/history") {
		t.Errorf("%s: history depends on the standard library only", broken)
	}
	for _, broken := range beyond(units, "headroom/e2e/framework/scenario", data) {
		t.Errorf("%s: scenarios are data", broken)
	}
}

func TestRunSpecsHasOneCaller(t *testing.T) {
	callers := map[string]bool{}
	for _, u := range list(t) {
		if u.Module == nil || u.Module.Path != "headroom" || strings.HasSuffix(u.ImportPath, ".test") {
			continue
		}
		for _, name := range append(u.GoFiles, u.CgoFiles...) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(u.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if mentions(f, "RunSpecs") {
				callers[u.pkg()] = true
			}
		}
	}
	if want := "headroom/e2e/suite"; len(callers) != 1 || !callers[want] {
		t.Errorf("callers of RunSpecs: want %q alone, got %v", want, callers)
	}
}

func TestRulesSeeViolations(t *testing.T) {
	const inv, hist = "headroom/e2e/invariants", "headroom/e2e/framework/history"
	for name, c := range map[string]struct {
		units []unit
		want  string // what is broken; "" is nothing
	}{
		"none":                      {[]unit{{ImportPath: inv, Deps: []string{hist, "fmt"}}}, ""},
		"invariants need chaos":     {[]unit{{ImportPath: inv + "/model", Deps: []string{"headroom/chaos"}}}, inv + "/model needs headroom/chaos"},
		"a driver needs invariants": {[]unit{{ImportPath: "headroom/drivers/gate", Deps: []string{inv}}}, "headroom/drivers/gate needs " + inv},
		"a test of the cluster needs invariants": {
			[]unit{{ImportPath: "headroom/e2e/framework/cluster/local_test [headroom/e2e/framework/cluster/local.test]", Deps: []string{inv + " [x.test]"}}},
			"headroom/e2e/framework/cluster/local_test [headroom/e2e/framework/cluster/local.test] needs " + inv,
		},
		"the engine joins both":            {[]unit{{ImportPath: "headroom/e2e/framework/run", Deps: []string{inv, "headroom/drivers"}}}, ""},
		"a name that only begins the same": {[]unit{{ImportPath: inv, Deps: []string{"headroom/chaosx"}}}, ""},
	} {
		if got := strings.Join(crossings(c.units), "; "); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}

	units := []unit{{ImportPath: "fmt", Standard: true}, {ImportPath: "k8s.io/api"}, {ImportPath: hist, Deps: []string{"fmt", "k8s.io/api"}}}
	if got, want := strings.Join(outside(units, hist), "; "), hist+" needs k8s.io/api"; got != want {
		t.Errorf("outside: want %q, got %q", want, got)
	}

	units = []unit{{ImportPath: "headroom/s", Deps: []string{"fmt", "headroom/ok", "headroom/chaos"}}, {ImportPath: "headroom/t", Deps: []string{"headroom/chaos"}}}
	if got, want := strings.Join(beyond(units, "headroom/s", []string{"headroom/ok"}), "; "), "headroom/s needs headroom/chaos"; got != want {
		t.Errorf("beyond: want %q, got %q", want, got)
	}

	for source, want := range map[string]bool{
		`import "github.com/onsi/ginkgo/v2"; func f() { ginkgo.RunSpecs(nil, "") }`:                true,
		`import g "github.com/onsi/ginkgo/v2"; var f = g.RunSpecs`:                                 true,
		`import . "github.com/onsi/ginkgo/v2"; func f() { RunSpecs(nil, "") }`:                     true,
		`import "github.com/onsi/ginkgo/v2"; func f() { ginkgo.It("RunSpecs") }`:                   false,
		`import ginkgo "other"; func f() { ginkgo.RunSpecs() }`:                                    false,
		"import \"github.com/onsi/ginkgo/v2\"\n// RunSpecs\nvar g = ginkgo.It\nvar x = y.RunSpecs": false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := mentions(f, "RunSpecs"); got != want {
			t.Errorf("%s: want %v, got %v", source, want, got)
		}
	}
}
