package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
)

// definition writes a driver's file and returns its path. The command's words are quoted as in Go, which YAML reads too.
func definition(t *testing.T, dir, name, part string, command ...string) string {
	t.Helper()
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = fmt.Sprintf("%q", w)
	}
	text := "apiVersion: headroom/v1alpha1\nkind: Driver\nname: " + name + "\nfigures: {minInterval: 1s, cacheAge: 2s, lastGoodLife: 30s}\n"
	if part == "controller" {
		text += `node: {command: ["/bin/sh", "-c", "exit 1 # ${ENDPOINT}"]}` + "\n"
	}
	text += part + ": {command: [" + strings.Join(words, ", ") + "]}\n"
	path := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBrokenDrivers adds drivers that do not come up. Each is the driver's failure and not the environment's, with its last words, and leaves
// nothing running.
func TestBrokenDrivers(t *testing.T) {
	t.Parallel() // it mostly waits
	c := testBinaries(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script + " # ${ENDPOINT}"} }
	cases := []struct {
		name, part string
		command    []string
		wants      []string
	}{
		{"exits", "node", sh("echo out of luck; exit 9"), []string{"ended by itself (exit status 9)", "out of luck"}},
		{"silent", "node", sh("echo asleep; sleep 7001"), []string{"not healthy after", "asleep"}},
		{"useless", "node", []string{self, useless, "${ENDPOINT}"}, []string{"Unimplemented", "useless, but listening"}},
		{"renamed", "node", []string{"headroom-hostpathlike", "--endpoint=${ENDPOINT}", "--nodeid=${NODE_ID}", "--statedir=${STATE_DIR}", "--enable-attach"},
			[]string{`want the name that it was given, "renamed.test", got "hostpath.csi.k8s.io"`, "try: pass ${DRIVER_NAME}"}},
		{"attachless", "node", []string{"headroom-hostpathlike", "--endpoint=${ENDPOINT}", "--drivername=${DRIVER_NAME}", "--nodeid=${NODE_ID}", "--statedir=${STATE_DIR}"},
			[]string{"want PUBLISH_UNPUBLISH_VOLUME, got none", "--enable-attach"}},
		{"headless", "controller", sh("echo no head; exit 8"), []string{"ended by itself (exit status 8)", "no head"}},
	}
	known := map[string]string{"steady": "steady"}
	for _, c := range cases {
		known[c.name] = definition(t, dir, c.name, c.part, c.command...)
	}
	cell := newTestCluster(t, filepath.Join(dir, "run"), c, known)
	// Two of them take as long as a driver is waited for; all are waited for at once.
	errs := make([]error, len(cases))
	var all sync.WaitGroup
	for i, c := range cases {
		all.Go(func() {
			errs[i] = cell.AddDriver(t.Context(), cluster.DriverSpec{Name: c.name + ".test", Definition: c.name})
			if c.part == "node" && errs[i] == nil {
				errs[i] = cell.AddNode(t.Context(), cluster.NodeSpec{Name: "n-" + c.name, Drivers: []string{c.name + ".test"}})
			}
		})
	}
	all.Wait()
	for i, c := range cases {
		node := map[string]string{"node": "n-" + c.name}[c.part]
		var broken *cluster.DriverError
		if !errors.As(errs[i], &broken) || broken.Driver != c.name+".test" || broken.Node != node {
			t.Errorf("%s: want an error of its driver on node %q, got %v", c.name, node, errs[i])
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(errs[i].Error(), want) {
				t.Errorf("%s: want %q in the error, got: %v", c.name, want, errs[i])
			}
		}
	}
	for id := range cell.pids(t) {
		if strings.Contains(id, "@") && !strings.HasPrefix(id, "csi-attacher@") {
			t.Errorf("component %s is left", id)
		}
	}
	for _, p := range descendants(t, cell.life.pid) {
		for _, word := range []string{"sleep 7001", useless, "headroom:node", "/kubelet --"} {
			if strings.Contains(p.args, word) {
				t.Errorf("process %d is left: %s", p.pid, p.args)
			}
		}
	}
	for _, c := range cases {
		if _, err := cell.client.CoreV1().Nodes().Get(t.Context(), "n-"+c.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("node n-%s: want it gone, got %v", c.name, err)
		}
		if err := cell.RemoveDriver(t.Context(), c.name+".test"); err != nil {
			t.Error(err)
		}
	}
	if err := cell.addTestDriver(t.Context(), "steady", "n1"); err != nil {
		t.Errorf("a good driver afterwards: %v", err)
	}
}

// TestDestroyDuringStart ends a cell while a node of it waits for its driver. The histories are closed all the same.
func TestDestroyDuringStart(t *testing.T) {
	c := testBinaries(t)
	dir := filepath.Join(t.TempDir(), "run")
	path := definition(t, t.TempDir(), "silent", "node", "/bin/sh", "-c", "sleep 7002 # ${ENDPOINT}")
	cell := newTestCluster(t, dir, c, map[string]string{"silent": path})
	if err := cell.AddDriver(t.Context(), cluster.DriverSpec{Name: "silent.test", Definition: "silent"}); err != nil {
		t.Fatal(err)
	}
	added := make(chan error, 1)
	go func() {
		added <- cell.AddNode(t.Context(), cluster.NodeSpec{Name: "n1", Drivers: []string{"silent.test"}})
	}()
	await(t, "the driver's start", func() bool {
		return slices.ContainsFunc(descendants(t, cell.life.pid), func(p hostProcess) bool { return strings.HasPrefix(p.args, "sleep 7002") })
	})
	were := descendants(t, cell.life.pid)
	if err := cell.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-added; err == nil {
		t.Error("add a node to what is destroyed: want an error")
	}
	wantNothingLeft(t, dir, were)
	wantClosed(t, dir)
}
