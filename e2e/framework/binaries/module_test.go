package binaries

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/e2e/framework/versions"
)

func TestGenerate(t *testing.T) {
	for _, c := range []struct {
		name      string
		component Component
		from      string
		want      string
	}{
		{
			"kubernetes: staging becomes published modules, godebug is kept",
			Component{Name: "kubelet", Version: "v1.36.3", Module: "k8s.io/kubernetes"},
			`module k8s.io/kubernetes
go 1.26.0
toolchain go1.26.5
godebug default=go1.26
require (
	github.com/some/thing v1.0.0
	k8s.io/api v0.0.0
)
replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubelet => ./staging/src/k8s.io/kubelet
)
`,
			`module headroom.build/kubelet

go 1.26.0

require k8s.io/kubernetes v1.36.3

godebug default=go1.26

replace k8s.io/api => k8s.io/api v0.36.3

replace k8s.io/kubelet => k8s.io/kubelet v0.36.3
`,
		}, {
			"etcd: directories of the repository are left out",
			Component{Name: "etcd", Version: "v3.6.16", Module: "go.etcd.io/etcd/server/v3"},
			`module go.etcd.io/etcd/server/v3
go 1.26.0
require go.etcd.io/etcd/api/v3 v3.6.16
replace go.etcd.io/etcd/api/v3 => ../api
replace go.etcd.io/etcd => ./FORBIDDEN_DEPENDENCY
`,
			`module headroom.build/etcd

go 1.26.0

require go.etcd.io/etcd/server/v3 v3.6.16
`,
		}, {
			"attacher: replacements by version are kept",
			Component{Name: "csi-attacher", Version: "v4.12.0", Module: "github.com/kubernetes-csi/external-attacher/v4"},
			`module github.com/kubernetes-csi/external-attacher/v4
go 1.26.0
replace k8s.io/api => k8s.io/api v0.36.1
replace example.com/old v1.0.0 => example.com/fork v1.0.1
`,
			`module headroom.build/csi-attacher

go 1.26.0

require github.com/kubernetes-csi/external-attacher/v4 v4.12.0

replace k8s.io/api => k8s.io/api v0.36.1

replace example.com/old v1.0.0 => example.com/fork v1.0.1
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := generate(c.component, "go.mod", []byte(c.from))
			if err != nil || string(got) != c.want {
				t.Errorf("want:\n%s\ngot:\n%s%v", c.want, got, err)
			}
		})
	}
	for name, from := range map[string]string{"go.mod: no go line": "module x\n", "unknown directive": "module x\ngo 1.26\nnonsense y\n"} {
		if _, err := generate(Component{Name: "x", Version: "v1.0.0", Module: "x"}, "go.mod", []byte(from)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}

func TestModuleBringsTheReleasesSums(t *testing.T) {
	newWorld(t)
	dir := t.TempDir()
	c := Of(versions.Default())[0]
	if err := writeModule(t.Context(), c, dir, nil); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil || string(sums) != "k8s.io/kubernetes v1.36.3 h1:sum\n" {
		t.Errorf("go.sum: got %q, %v", sums, err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.Contains(string(mod), "replace k8s.io/api => k8s.io/api v0.36.3") {
		t.Errorf("go.mod: got %s, %v", mod, err)
	}
}

// The arguments decide whether a build meets the packages that an earlier one compiled, and whether a binary knows its version.
func TestBuildArgs(t *testing.T) {
	set := Of(versions.Default())
	for i, want := range map[int]string{
		3: "build -buildvcs=false -o f -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 " +
			"-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36' k8s.io/kubernetes/cmd/kubelet",
		4: "build -buildvcs=false -o f -ldflags '-s -w' go.etcd.io/etcd/server/v3",
		5: "build -buildvcs=false -o f -ldflags '-s -w -X main.version=v4.12.0' github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
	} {
		if got := quote(buildArgs(set[i], "f")); got != want {
			t.Errorf("%s: want\n%s, got\n%s", set[i].Name, want, got)
		}
	}
	if got := quote([]string{"it's", "plain"}); got != `'it'\''s' plain` {
		t.Errorf("quote: got %s", got)
	}
}

func TestKeyFollowsEveryInput(t *testing.T) {
	w := newWorld(t)
	base := Component{Name: "x", Version: "v1.0.0", Module: "m", Package: "m/x", Stamps: []string{"a=b"}}
	keyOf := func(c Component) string {
		inputs, err := (&Build{}).Inputs(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return key(c, inputs)
	}
	changed := map[string]Component{}
	for name, change := range map[string]func(*Component){
		"version": func(c *Component) { c.Version = "v1.0.1" },
		"module":  func(c *Component) { c.Module = "n" },
		"package": func(c *Component) { c.Package = "m/y" },
		"stamps":  func(c *Component) { c.Stamps = []string{"a=c"} },
		"main":    func(c *Component) { c.Main = "package main" },
	} {
		c := base
		change(&c)
		changed[name] = c
	}
	before := keyOf(base)
	if again := keyOf(base); again != before {
		t.Errorf("want the same key twice, got %s and %s", before, again)
	}
	for name, c := range changed {
		if keyOf(c) == before {
			t.Errorf("%s does not change the key", name)
		}
	}
	w.steer("version", "go1.26.9")
	if keyOf(base) == before {
		t.Error("the go release does not change the key")
	}
}

func TestSays(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"last word of the first line", "echo etcd Version: 3.6.16; echo Git SHA: none", ""},
		{"only the first line counts", "echo other; echo 3.6.16", `got "other"`},
		{"longer version", "echo 3.6.160", `p --version: want line 1 to end in "3.6.16", got "3.6.160"`},
		{"silent", "true", `got ""`},
		{"fails", "echo no flag; exit 2", `exit status 2; it printed "no flag"`},
		{"the caller's settings do not reach it", `echo "3.6.16$ETCD_NAME"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("ETCD_NAME", "x")
			dir := t.TempDir()
			file := filepath.Join(dir, "p")
			if err := os.WriteFile(file, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			err := says(t.Context(), Component{Name: "p", Says: "3.6.16"}, file, dir)
			if (c.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

func TestSaysAsksAsTheProgramWantsToBeAsked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n[ \"$*\" = 'version -o short' ] && echo p: && echo Version: v1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := Component{Name: "p", Says: "v1", Asks: []string{"version", "-o", "short"}, Line: 1}
	if err := says(t.Context(), c, file, dir); err != nil {
		t.Error(err)
	}
	c.Line = 2
	if err := says(t.Context(), c, file, dir); err == nil || !strings.Contains(err.Error(), `p version -o short: want line 3 to end in "v1", got ""`) {
		t.Errorf("line 3: want an error that says so, got %v", err)
	}
	c.Asks = nil
	if err := says(t.Context(), c, file, dir); err == nil || !strings.Contains(err.Error(), "p --version: exit status 1") {
		t.Errorf("--version: want an error that says so, got %v", err)
	}
}

func TestNodeComponentsAreKnownByName(t *testing.T) {
	r, provisioner := versions.Default(), versions.Embedded().Provisioner()
	all, err := Select(r, provisioner, nil)
	if err != nil || len(all) != len(Of(r)) {
		t.Fatalf("no names: want the local cluster's %d components, got %d (error: %v)", len(Of(r)), len(all), err)
	}
	some, err := Select(r, provisioner, []string{"csi-provisioner", "ptp", "kubeadm", "kubelet"})
	if got := strings.Join(some.Names(), " "); err != nil || got != "kubelet kubeadm ptp csi-provisioner" {
		t.Errorf("want kubelet kubeadm ptp csi-provisioner, got %q (error: %v)", got, err)
	}
	if _, err := Select(r, provisioner, []string{"kubeadmin"}); err == nil || !strings.Contains(err.Error(), "containerd") {
		t.Errorf("want an error that lists containerd, got %v", err)
	}
	seen := map[string]bool{}
	for _, c := range slices.Concat(Of(r), OfNode(r), OfDriver(provisioner)) {
		if seen[c.Name] || c.Says == "" || c.Package == "" {
			t.Errorf("component %+v: want a name of its own, a package and what it says", c)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), c.Name, c.Main, 0); c.Main != "" && err != nil {
			t.Errorf("main package of %s: %v", c.Name, err)
		}
		seen[c.Name] = true
	}
	if args := strings.Join(buildArgs(Component{Package: "p", Tags: "a,b"}, "f"), " "); !strings.HasSuffix(args, "-tags a,b p") {
		t.Errorf("want the tags before the package, got %q", args)
	}
	if args := strings.Join(buildArgs(Component{Package: "p", Main: "package main"}, "f"), " "); !strings.HasSuffix(args, " .") {
		t.Errorf("want the main package built, got %q", args)
	}
}

// TestToolchain: each go command for a release that names a toolchain runs with it, and those for others with the caller's.
func TestToolchain(t *testing.T) {
	w := newWorld(t)
	t.Setenv("GOTOOLCHAIN", "local")
	preview, err := versions.Embedded().Find(versions.Preview)
	if err != nil {
		t.Fatal(err)
	}
	for release, want := range map[versions.Version]string{versions.Default().Version: "local", preview.Version: preview.Toolchain} {
		if err := os.RemoveAll(filepath.Join(w.dir, "toolchains")); err != nil {
			t.Fatal(err)
		}
		if _, err := Ensure(t.Context(), Options{Cache: w.cache, Kubernetes: release, Components: []string{"kubelet"}, From: w.from}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(w.dir, "toolchains"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for _, line := range lines {
			if !strings.HasSuffix(line, " "+want) {
				t.Errorf("%s: want each command with %s, got %q", release, want, lines)
			}
		}
		if len(lines) < 3 {
			t.Errorf("%s: want go env, go mod download and go build, got %q", release, lines)
		}
	}
}
