package kind

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// falseDocker puts a `docker` on the PATH that runs script, with its arguments as $*; what it was asked is in the file that is returned.
func falseDocker(t *testing.T, script string) (asked string) {
	t.Helper()
	dir := t.TempDir()
	asked = filepath.Join(dir, "asked")
	if err := os.WriteFile(filepath.Join(dir, "docker"), fmt.Appendf(nil, "#!/bin/sh\necho \"$*\" >>%s\n%s\n", asked, script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return asked
}

// engineWith answers as an engine of which all is well, but for what the cases before the last say.
func engineWith(cases string) string {
	return `case "$*" in
` + cases + `
"info "*) echo / ;;
"version "* | "network ls "* | "container ls "* | "ps "* | "images "* | "run "*) ;;
"image inspect "*) echo 'Error response from daemon: No such image: x' >&2; exit 1 ;;
*) echo "not expected: $*" >&2; exit 1 ;;
esac`
}

const pinned = "kindest/node:v1.36.3@sha256:0123"

// TestFoundBeforeAnythingStarts: what an engine lacks is an error of the environment that says what to do, and the engine was not asked to change anything.
func TestFoundBeforeAnythingStarts(t *testing.T) {
	one := Topology{Name: "t", Workers: []Worker{{}}}
	pulled := Topology{Name: "t", Image: pinned, Workers: []Worker{{}}}
	for name, c := range map[string]struct {
		cases    string
		topology Topology
		want     []string
	}{
		"no engine": {
			`"version "*) echo 'Cannot connect to the Docker daemon at unix:///x' >&2; exit 1 ;;`, one, []string{"Cannot connect", "docker-private.sh", "--provider local"},
		},
		"cluster's name taken": {
			`"ps "*label=io.x-k8s.kind.cluster=headroom-x*) echo headroom-x-control-plane ;;`, one, []string{`"headroom-x"`, "kind delete cluster --name headroom-x"},
		},
		"container's name taken": {
			`"ps "*name=*headroom-x-*) echo headroom-x-worker ;;`, one, []string{`container "headroom-x-worker"`, "docker rm"},
		},
		"network's name taken": {
			`"network ls "*name=*) echo headroom-x ;;`, one, []string{`network "headroom-x"`, "docker network rm headroom-x"},
		},
		"disk too small": {`"info "*) echo /proc ;;`, one, []string{"/proc has 0.0 GB free, want 4.3 GB", "docker system df"}}, // which has room for nothing
		"image not in the registry": {
			`"pull "*) echo 'Error response from daemon: manifest for ` + pinned + ` not found: manifest unknown' >&2; exit 1 ;;`,
			pulled, []string{pinned, "manifest unknown", "leave it out"},
		},
		"no registry, and nothing to assemble from": {
			`"pull "*) echo 'Error response from daemon: Get "https://r/v2/": dial tcp: lookup r: no such host' >&2; exit 1 ;;`,
			pulled, []string{"no registry answers for node image " + pinned, "none can be assembled", "make a Debian root"},
		},
		"no privileged containers": {
			`"image inspect "*) ;;
"run "*--privileged*) echo 'OCI runtime create failed: unable to apply caps: operation not permitted' >&2; exit 125 ;;`,
			pulled, []string{"unable to apply caps", "lacks a capability", "DOCKER_PRIVATE=1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := falseDocker(t, engineWith(c.cases))
			t.Setenv("PATH", filepath.Dir(asked)) // the engine, and no debootstrap
			t.Setenv("HEADROOM_CACHE", t.TempDir())
			p := &Provider{options: Options{Run: "x", RunDir: t.TempDir(), Topology: c.topology}}
			made, err := p.Create(t.Context(), scenario.Topology{Kubernetes: versions.Default().Version})
			var env *cluster.EnvironmentError
			if !errors.As(err, &env) || strings.Count(err.Error(), "remedy: ") != 1 || made != nil {
				t.Fatalf("want an EnvironmentError with one remedy, got %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("want %q in the error, got %v", w, err)
				}
			}
			b, err := os.ReadFile(asked)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(string(b), "\n") {
				if strings.Contains(line, "create") || strings.HasPrefix(line, "rm") || strings.HasPrefix(line, "run --detach") {
					t.Errorf("want nothing started or removed, got docker %s", line)
				}
			}
		})
	}
}

func TestNothingIsFoundWhereAllIsWell(t *testing.T) {
	falseDocker(t, engineWith(""))
	free := &nascent{shape: shape{Name: "headroom-x"}}
	for name, err := range map[string]error{"name": free.nameFree(t.Context()), "disk": checkDisk(t.Context(), 0)} {
		if err != nil {
			t.Errorf("%s: want nothing, got %v", name, err)
		}
	}
	falseDocker(t, engineWith(`"info "*) echo /nowhere/on/this/machine ;;`))
	if err := checkDisk(t.Context(), 1<<62); err != nil {
		t.Errorf("disk of an engine elsewhere: want nothing, got %v", err)
	}
}

// TestImagesAreFoundInOrder: the engine's own, by digest; the registry's; without a registry the engine's of that tag; then one that is assembled.
func TestImagesAreFoundInOrder(t *testing.T) {
	const tag = "kindest/node:v1.36.3"
	const silent = `"pull "*) echo 'Get "https://r/v2/": dial tcp: lookup r: no such host' >&2; exit 1 ;;`
	for name, c := range map[string]struct {
		cases, want string
		pulls       bool
		says        string
	}{
		"there by its digest":               {`"image inspect "*) echo id ;;`, pinned, false, ""},
		"registry answers":                  {`"pull --quiet "` + pinned + `) ;;`, pinned, true, ""},
		"no registry, tag loaded by hand":   {`"image inspect "*` + tag + `) echo id ;;` + "\n" + silent, tag, true, "whatever its digest"},
		"no registry, and nothing is there": {silent, "", true, "assembling one from source"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := falseDocker(t, engineWith(c.cases))
			var out bytes.Buffer
			n := &nascent{steps: newSteps(&out)}
			nodes := Topology{Image: pinned, Workers: []Worker{{}, {Kubernetes: "v1.35.4"}}}.nodes("v1.36.3")
			if err := n.findImages(t.Context(), nodes); err != nil {
				t.Fatal(err)
			}
			if want := []string{c.want, c.want, ""}; !slices.Equal(n.images, want) || !slices.Equal(n.own, []bool{c.want == "", c.want == "", true}) {
				t.Errorf("want images %q, got %q (assembled: %v)", want, n.images, n.own)
			}
			b, err := os.ReadFile(asked)
			if err != nil {
				t.Fatal(err)
			}
			if pulls := strings.Count(string(b), "pull "); pulls > 1 || (pulls == 1) != c.pulls {
				t.Errorf("want the registry asked: %v, got %d times", c.pulls, pulls)
			}
			if got := out.String(); c.says == "" && got != "" || !strings.Contains(got, c.says) {
				t.Errorf("want it to say %q, got %q", c.says, got)
			}
		})
	}
}

func TestNodesAreWhatTheTopologySays(t *testing.T) {
	n := &nascent{shape: shape{Kubernetes: "v1.36.3", Kubelets: map[string]versions.Version{"w": "v1.35.4"}}}
	node := func(name, kubelet string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: kubelet}}}
	}
	if err := n.asDeclared([]corev1.Node{node("c", "v1.36.3"), node("w", "v1.35.4")}); err != nil {
		t.Error(err)
	}
	if err := n.asDeclared([]corev1.Node{node("w", "v1.36.3")}); err == nil || !strings.Contains(err.Error(), "node w: want kubelet v1.35.4, got v1.36.3") {
		t.Errorf("want an error that names node and versions, got %v", err)
	}
}

func TestVersionsOfAnOlderWorker(t *testing.T) {
	topology, err := LoadTopology("older-worker")
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{options: Options{Run: "r", Topology: topology}}
	all := p.Versions(versions.Default())
	if got, want := all["kubelet@headroom-r-worker"], "v1.35.4"; got != want || all["kubelet"] != "v1.36.3" {
		t.Errorf("want kubelet %s on the first worker beside v1.36.3, got %v", want, all)
	}
}

func TestStatic(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/bin/sh": "linked dynamically", script: "want an executable", "/nowhere": "/nowhere"} {
		if err := static(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q in the error, got %v", path, want, err)
		}
	}
}
