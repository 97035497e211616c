package killtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// kindVariable asks for the tests that make kind clusters: make kind-tests.
const kindVariable = "HEADROOM_KIND_TEST"

// clusterLabel is what kind labels the nodes of a cluster with.
const clusterLabel = "io.x-k8s.kind.cluster"

// docker runs a command of the container engine's.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("docker", args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// inventory is what a container engine has and what it needs of this machine, and the files of a directory, one line each.
func inventory(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	for _, list := range [][]string{
		{"ps", "--all", "--no-trunc", "--format", "container {{.ID}} {{.Names}} {{.State}}"},
		{"network", "ls", "--no-trunc", "--format", "network {{.ID}} {{.Name}}"},
		{"volume", "ls", "--format", "volume {{.Name}}"},
		{"images", "--all", "--no-trunc", "--format", "image {{.Repository}}:{{.Tag}} {{.ID}}"},
	} {
		if out := docker(t, list...); out != "" {
			all = append(all, strings.Split(out, "\n")...)
		}
	}
	for what, dir := range map[string]string{"interface": "/sys/class/net", "file": dir} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, what+" "+e.Name())
		}
	}
	slices.Sort(all)
	return all
}

// differences are the lines that came and those that went.
func differences(before, after []string) (came, went []string) {
	without := func(lines, others []string) (out []string) {
		for _, line := range lines {
			if !slices.Contains(others, line) {
				out = append(out, line)
			}
		}
		return out
	}
	return without(after, before), without(before, after)
}

// engine is the container engine with somebody else's things in it.
type engine struct {
	image string // of nodes
	guest string // somebody else's running container, which looks like a node of a kind cluster of their own
}

// newEngine makes sure that the engine has the node image, and puts somebody else's things there for the time of the test.
func newEngine(t *testing.T, headroom program) engine {
	t.Helper()
	image, err := headroom.command("node-image").Output()
	if err != nil {
		t.Fatalf("node image: %v", err)
	}
	e := engine{image: strings.TrimSpace(string(image)), guest: fmt.Sprintf("foreign-%d", os.Getpid())}
	docker(t, "network", "create", e.guest)
	t.Cleanup(func() { docker(t, "network", "rm", e.guest) })
	docker(t, "volume", "create", e.guest)
	t.Cleanup(func() { docker(t, "volume", "rm", e.guest) })
	docker(t, "run", "--detach", "--name", e.guest, "--label", clusterLabel+"="+e.guest, "--network", e.guest, "--volume", e.guest+":/data", "--volume", "/more",
		"--entrypoint", "/bin/sleep", e.image, "infinity")
	t.Cleanup(func() { docker(t, "rm", "--force", "--volumes", e.guest) })
	return e
}

func askedFor(t *testing.T) {
	t.Helper()
	if os.Getenv(kindVariable) == "" {
		t.Skipf("makes kind clusters: set %s, or make kind-tests", kindVariable)
	}
}

// TestKillOnKind kills runs on kind clusters, half-made ones and one with a spec in it, and asks `headroom down --all` for the rest.
func TestKillOnKind(t *testing.T) {
	askedFor(t)
	headroom := command(t)
	e := newEngine(t, headroom)
	for name, reach := range map[string]func(t *testing.T, r *trial){
		"nodes being made":       func(t *testing.T, r *trial) { r.awaitNodes(t, 1) },
		"control plane starting": func(t *testing.T, r *trial) { r.awaitSaid(t, "node containers"); time.Sleep(3 * time.Second) },
		"a volume published": func(t *testing.T, r *trial) {
			if _, err := r.reach(published, pollInterval); err != nil {
				t.Fatalf("%v\n%s", err, r.said())
			}
		},
	} {
		t.Run(name, func(t *testing.T) { e.kill(t, headroom, reach) })
	}
}

func (e engine) kill(t *testing.T, headroom program, reach func(t *testing.T, r *trial)) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	before := inventory(t, tmp)
	r := start(t, headroom, filepath.Join(t.TempDir(), "run"), reference, "^count-drop$", 1, "--provider", "kind")
	t.Cleanup(func() { _ = headroom.command("down", "--all").Run() }) // where the test failed
	reach(t, r)
	name := r.cluster(t)
	docker(t, "network", "connect", name, e.guest)
	root, err := kill{victim: victimCommand}.choose(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.watch.kill(root); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, err := headroom.command("down", "--all").CombinedOutput()
	t.Logf("headroom down --all, %.1fs: %s", time.Since(began).Seconds(), out)
	if err != nil || !strings.Contains(string(out), name) {
		t.Errorf("headroom down --all: want cluster %s removed, got %v: %s", name, err, out)
	}
	if _, err := r.gone(); err != nil {
		t.Error(err)
	}
	if came, went := differences(before, inventory(t, tmp)); len(came)+len(went) > 0 {
		t.Errorf("after headroom down --all: want what there was before, got more:\n  %s\nand less:\n  %s", strings.Join(came, "\n  "), strings.Join(went, "\n  "))
	}
	if nets := docker(t, "inspect", "--format", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}", e.guest); strings.TrimSpace(nets) != e.guest {
		t.Errorf("want the guest in its own network only, got %q", nets)
	}
	registryIsTidied(t, headroom)
	if code, output, err := r.judged(headroom); err != nil || code != 3 && code != 4 {
		t.Errorf("headroom check: want exit code 3 or 4, got %d (error: %v):\n%s", code, err, output)
	}
}

// cluster is the name of the run's cluster: that of its network.
func (r *trial) cluster(t *testing.T) string {
	t.Helper()
	names := docker(t, "network", "ls", "--filter", "label=headroom.dev/owner", "--format", "{{.Name}}")
	if names == "" || strings.Contains(names, "\n") {
		t.Fatalf("want the network of one cluster, got %q", names)
	}
	return names
}

// awaitNodes waits until so many containers of the run's cluster are there.
func (r *trial) awaitNodes(t *testing.T, n int) {
	t.Helper()
	r.await(t, fmt.Sprintf("%d node containers", n), func() bool {
		networks := strings.Fields(docker(t, "network", "ls", "--filter", "label=headroom.dev/owner", "--format", "{{.Name}}"))
		return len(networks) == 1 && len(strings.Fields(docker(t, "ps", "--all", "--quiet", "--filter", "label="+clusterLabel+"="+networks[0]))) >= n
	})
}

// awaitSaid waits until the command has written a text.
func (r *trial) awaitSaid(t *testing.T, text string) {
	t.Helper()
	r.await(t, text, func() bool { return strings.Contains(r.said(), text) })
}

func (r *trial) await(t *testing.T, what string, there func() bool) {
	t.Helper()
	for deadline := time.Now().Add(reachLimit); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if there() {
			return
		}
		if r.ended() {
			t.Fatalf("the run ended, with exit code %d, before %s:\n%s", r.code, what, r.said())
		}
	}
	t.Fatalf("the run did not come to %s within %s:\n%s", what, reachLimit, r.said())
}

// TestStraysOnKindAreFound leaves things on purpose. A cluster whose network has lost its owner's label is one: nobody may take it for ours.
func TestStraysOnKindAreFound(t *testing.T) {
	askedFor(t)
	headroom := command(t)
	e := newEngine(t, headroom)
	tmp := t.TempDir()
	before := inventory(t, tmp)
	name := fmt.Sprintf("headroom-unlabelled-%d", os.Getpid())
	docker(t, "network", "create", name)
	docker(t, "create", "--name", name+"-control-plane", "--label", clusterLabel+"="+name, "--network", name, "--volume", "/var", "--entrypoint", "/bin/true", e.image)
	docker(t, "tag", e.image, "headroom.dev/stray:"+name)
	end := func() {
		docker(t, "rm", "--volumes", name+"-control-plane")
		docker(t, "network", "rm", name)
		docker(t, "rmi", "headroom.dev/stray:"+name)
	}
	if err := os.WriteFile(filepath.Join(tmp, "stray"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := headroom.command("down", "--all").CombinedOutput(); err != nil || strings.Contains(string(out), name) {
		t.Errorf("headroom down --all: want nothing removed without a label, got %v: %s", err, out)
	}
	docker(t, "pause", e.guest) // as if somebody had stopped what is not theirs
	came, went := differences(before, inventory(t, tmp))
	docker(t, "unpause", e.guest)
	end()
	for _, want := range []string{"container ", name + "-control-plane created", "network ", " " + name, "volume ", "image headroom.dev/stray:" + name, "file stray", e.guest + " paused"} {
		if !slices.ContainsFunc(came, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("want %q found, got:\n  %s", want, strings.Join(came, "\n  "))
		}
	}
	if len(went) != 1 || !strings.Contains(went[0], e.guest+" running") {
		t.Errorf("want the guest missed, which does not run, got %q", went)
	}
}
