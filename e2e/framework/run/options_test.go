package run

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

func TestPrepareRefusesBadInput(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "driver.yaml")
	if err := os.WriteFile(broken, []byte("apiVersion: headroom/v1alpha1\nkind: Driver\nnmae: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	manifests := filepath.Join(t.TempDir(), "pods.yaml")
	const podsOnly = "apiVersion: headroom/v1alpha1\nkind: Driver\nname: x\nfigures: {minInterval: 1s, cacheAge: 1s, lastGoodLife: 1s}\n" +
		"pods: {manifests: [none.yaml], node: {workload: DaemonSet/x, container: x, socket: /csi/x}}\n"
	if err := os.WriteFile(manifests, []byte(podsOnly), 0o644); err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(t.TempDir(), "process.yaml")
	const noProgram = "apiVersion: headroom/v1alpha1\nkind: Driver\nname: x\nlimit: gate\nfigures: {minInterval: 1s, cacheAge: 1s, lastGoodLife: 1s}\n" +
		"node: {command: [./no-such-program, \"${ENDPOINT}\", \"${DRIVER_NAME}\", \"${NODE_ID}\"]}\n"
	if err := os.WriteFile(command, []byte(noProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		options Options
		want    []string
	}{
		"unknown driver":      {Options{Driver: "nosuch"}, []string{`"nosuch"`, "steady", "unlimited-on-outage"}},
		"no definition":       {Options{Driver: "/nowhere/driver.yaml"}, []string{"/nowhere/driver.yaml", "no such file"}},
		"broken definition":   {Options{Driver: broken}, []string{broken + ":3", "nmae"}},
		"unknown version":     {Options{Kubernetes: "v1.2.3"}, []string{"v1.2.3", "v1.36.3"}},
		"unknown component":   {Options{Components: map[string]versions.Version{"kublet": "v1.36.3"}}, []string{`"kublet"`, "kube-apiserver, "}},
		"unknown attacher":    {Options{Components: map[string]versions.Version{"csi-attacher": "v4.9.0"}}, []string{"csi-attacher", "v4.9.0", "v4.12.0"}},
		"unsupported skew":    {Options{Components: map[string]versions.Version{"kubelet": "v1.32.13"}}, []string{"kubelet v1.32.13", "3 minor versions", "--allow-unsupported-skew"}},
		"kubelet newer":       {Options{Components: map[string]versions.Version{"kubelet": "v1.37.2"}}, []string{"must not be newer than kube-apiserver"}},
		"locked gate":         {Options{Gates: gates("kubelet", false)}, []string{"locked to true", "older version"}},
		"gate too early":      {Options{Kubernetes: "v1.32.13", Gates: gates("kubelet", true)}, []string{"kubelet v1.32.13", "no feature gate"}},
		"gate of etcd":        {Options{Gates: gates("etcd", true)}, []string{`"etcd"`, "kubelet"}},
		"component on kind":   {Options{Provider: "kind", Components: map[string]versions.Version{"kubelet": "v1.35.4"}}, []string{"provider kind", "--topology"}},
		"provisioner, static": {Options{Components: map[string]versions.Version{"csi-provisioner": "v5.3.0"}}, []string{"csi-provisioner v5.3.0", "provisioning: dynamic"}},
		"unknown provisioner": {Options{Driver: "steady-dynamic", Components: map[string]versions.Version{"csi-provisioner": "v4.0.0"}},
			[]string{"csi-provisioner", "v4.0.0", "v5.3.0"}},
		"new release apart":    {Options{NewDriver: "hostpath"}, []string{`driver "steady" has a controller of its own: true`, `new release "hostpath": false`}},
		"new release joined":   {Options{Driver: "hostpath", NewDriver: "steady"}, []string{`driver "hostpath" has a controller of its own: false`, `new release "steady": true`}},
		"figures of no policy": {Options{Figures: scenario.Figures{CacheAge: 1e6}}, []string{"cacheAge 1ms is less than minInterval", "driver.figures of the scenario"}},
		"program not there":    {Options{Driver: command}, []string{command + ":6", "node.command[0]", "no-such-program", "remedy"}},
		"new release dynamic":  {Options{NewDriver: "steady-dynamic"}, []string{`new release "steady-dynamic": true`, "volumes.provisioning"}},
		"new release unknown":  {Options{NewDriver: "nosuch"}, []string{`"nosuch"`, "steady"}},
		"no mirror":            {Options{From: binaries.Origin{Mode: binaries.FromMirror}}, []string{"--mirror"}},
		"unknown provider":     {Options{Provider: "cloud"}, []string{`"cloud"`, "local, kind"}},
		"topology for local":   {Options{Topology: "one-worker"}, []string{`"one-worker"`, "--provider kind"}},
		"unknown topology":     {Options{Provider: "kind", Topology: "none"}, []string{`"none"`, "one-worker", "older-worker"}},
		"kubelet too new":      {Options{Provider: "kind", Topology: "older-worker", Kubernetes: "v1.34.4"}, []string{"workers[0]", "v1.35.4", "v1.34.4", "not newer"}},
		"full run directory":   {Options{RunDir: full}, []string{full, "not empty", `"old"`, "--run-dir"}},
		"run directory a file": {Options{RunDir: filepath.Join(full, "old")}, []string{"old", "--run-dir"}},
		"below a file":         {Options{RunDir: filepath.Join(full, "old", "x")}, []string{"--run-dir"}},
		"pods only on local":   {Options{Driver: "hostpath-pods"}, []string{"hostpath-pods", "node.command", "--provider kind"}},
		"manifests on kind":    {Options{Provider: "kind", Driver: manifests}, []string{manifests + ":5", "pods.manifests[0]", "none.yaml", "remedy"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.options.RunDir == "" {
				tc.options.RunDir = filepath.Join(t.TempDir(), "run")
			}
			_, err := prepare(tc.options)
			var input *cluster.InputError
			if !errors.As(err, &input) {
				t.Fatalf("want an InputError, got %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in the error, got %v", want, err)
				}
			}
		})
	}
}

// TestPrepareTakesDriversOnKind: whatever the gate gives a driver, it gives it on kind too.
func TestPrepareTakesDriversOnKind(t *testing.T) {
	for _, driver := range []string{"steady", "hostpath", "hostpath-gate", "hostpath-random", "steady-dynamic", "create-fails", "all-internal"} {
		if _, err := prepare(Options{Provider: "kind", Driver: driver, RunDir: filepath.Join(t.TempDir(), "run")}); err != nil {
			t.Errorf("driver %s: %v", driver, err)
		}
	}
}

func gates(component string, on bool) map[string]map[string]bool {
	return map[string]map[string]bool{component: {versions.MutableCSINodeAllocatableCount: on}}
}

func TestPrepareTakesAnUnsupportedSkewThatIsAllowed(t *testing.T) {
	o := Options{RunDir: filepath.Join(t.TempDir(), "run"), Components: map[string]versions.Version{"kubelet": "v1.37.2"}, AllowUnsupportedSkew: true}
	if _, err := prepare(o); err != nil {
		t.Error(err)
	}
}

// TestWantedBinaries: a component with a version of its own is not made at the run's version too, which would take many minutes.
func TestWantedBinaries(t *testing.T) {
	p, err := prepare(Options{
		RunDir: filepath.Join(t.TempDir(), "run"), Components: map[string]versions.Version{"kubelet": "v1.35.4", "csi-attacher": "v4.11.0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[versions.Version][]string{
		"v1.36.3": {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "csi-attacher"}, "v1.35.4": {"kubelet"},
	}
	if got := p.wanted(); !reflect.DeepEqual(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
}

func TestPrepareLeavesNothingBehindOnBadInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := prepare(Options{RunDir: dir, Driver: "nosuch"}); err == nil {
		t.Fatal("want an error")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("want no run directory after bad input, got %v", err)
	}
}

// TestStartWithoutBinaries takes away the directory that it made, and only that.
func TestStartWithoutBinaries(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	own := t.TempDir()
	for name, dir := range map[string]string{"new": filepath.Join(t.TempDir(), "run"), "own": own} {
		if _, err := Start(ctx, Options{RunDir: dir, Cache: t.TempDir(), Out: io.Discard}); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: want %v, got %v", name, context.Canceled, err)
		}
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) != (dir != own) {
			t.Errorf("%s: after a run that never began: %v", name, err)
		}
	}
}

func TestPrepareUnwritableRunDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	var input *cluster.InputError
	if _, err := prepare(Options{RunDir: dir}); !errors.As(err, &input) {
		t.Fatalf("want an InputError, got %v", err)
	}
}

func TestPrepareFillsIn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "run")
	p, err := prepare(Options{RunDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if p.Seed == 0 || p.run == "" || p.definition.Name != "steady" || p.Kubernetes == "" || p.header.Run != p.run || p.header.Seed != p.Seed {
		t.Errorf("want seed, run, driver, version and header filled in, got %+v", p)
	}
	if p.header.Params.Slack == 0 || p.header.Params.Driver.LastGoodLife == 0 {
		t.Errorf("want slack and the driver's declared figures in the header, got %+v", p.header.Params)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("want an empty run directory, got %v (%v)", entries, err)
	}
	if p.header.Provider != "local" || p.header.Topology != "" {
		t.Errorf("want provider local and no topology in the header, got %q and %q", p.header.Provider, p.header.Topology)
	}
	for given, want := range map[string]string{"": kind.DefaultTopology, "older-worker": "older-worker"} {
		p, err := check(Options{Provider: "kind", Topology: given})
		if err != nil || p.header.Provider != "kind" || p.header.Topology != want {
			t.Errorf("topology %q: want kind and %q in the header, got %+v (%v)", given, want, p, err)
		}
	}
	other, err := prepare(Options{RunDir: filepath.Join(t.TempDir(), "run"), Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	if other.Seed != 42 || other.run == p.run {
		t.Errorf("want the seed given and another run id, got seed %d, runs %q and %q", other.Seed, other.run, p.run)
	}
}

func TestPrepareTakesADefinitionByPath(t *testing.T) {
	dir := t.TempDir()
	text := `apiVersion: headroom/v1alpha1
kind: Driver
name: mine
description: a driver of one's own
figures: {minInterval: 1s, cacheAge: 2s, lastGoodLife: 30s, step: 2, stepInterval: 10s}
node: {command: [./driver, "${ENDPOINT} ${DRIVER_NAME} ${NODE_ID} ${BACKEND}"]}
`
	if err := os.WriteFile(filepath.Join(dir, "driver"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	p, err := prepare(Options{Driver: "./mine.yaml", RunDir: filepath.Join(dir, "run")})
	if err != nil {
		t.Fatal(err)
	}
	if p.definition.Name != "mine" || p.reference != filepath.Join(dir, "mine.yaml") {
		t.Errorf("want driver mine by its absolute path, got %q by %q", p.definition.Name, p.reference)
	}
}

// TestProvisionerIsWanted shows that external-provisioner is got where the definition asks for it, and nowhere else.
func TestProvisionerIsWanted(t *testing.T) {
	for driver, want := range map[string]bool{"": false, "steady": false, "hostpath": false, "steady-dynamic": true, "create-fails": true} {
		wanted := (&Options{Driver: driver, Kubernetes: "v1.36.3"}).wanted()
		if got := slices.Contains(wanted["v1.36.3"], versions.ProvisionerComponent); got != want {
			t.Errorf("driver %q: want csi-provisioner %t, got %v", driver, want, wanted)
		}
	}
}

func TestScaleStretchesSlackAndWaits(t *testing.T) {
	p, err := prepare(Options{RunDir: filepath.Join(t.TempDir(), "run"), Scale: 2.5})
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(p.header.Params.Slack); got != 5*time.Second {
		t.Errorf("want the slack of %s stretched to 5s, got %s", DefaultSlack, got)
	}
	s := &Session{Dir: t.TempDir(), Scale: p.Scale}
	if got := s.Stretch(10 * time.Second); got != 25*time.Second {
		t.Errorf("want a wait of 25s, got %s", got)
	}
	if err := writeJSON(filepath.Join(s.Dir, fileSession), joinInfo{Scale: s.Scale}); err != nil {
		t.Fatal(err)
	}
	if joined, none := StretchIn(s.Dir, time.Minute), StretchIn(t.TempDir(), time.Minute); joined != 150*time.Second || none != time.Minute {
		t.Errorf("want a run's own scale and 1 where there is no run, got %s and %s", joined, none)
	}
	bench := &Bench{Session: &Session{Scale: 1e5}}
	tries := 0
	if err := bench.await(t.Context(), time.Millisecond, func(context.Context) error {
		if tries++; tries < 2 { // there is no second try within a millisecond
			return errors.New("not yet")
		}
		return nil
	}); err != nil {
		t.Errorf("want the wait stretched, got %v", err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	var input *cluster.InputError
	if _, err := prepare(Options{RunDir: dir, Scale: 0.1}); !errors.As(err, &input) {
		t.Errorf("want a scale below 1 refused, got %v", err)
	}
}
