package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
	"headroom/fixtures/quota"
)

const (
	// patience is for what happens soon on an idle machine; a test passes however slow the machine is.
	patience = 2 * time.Minute
	// testDriver is the driver's name in tests, testLimit what the backend lets be attached to a node.
	testDriver = "test.headroom.test"
	testLimit  = 5
)

// envBinaries hands the components' executables to a test process that cannot read the cache.
const envBinaries = "HEADROOM_TEST_BINARIES"

// components are the executables of a cell, for New.
type components struct {
	Binaries Binaries
	Versions map[string]versions.Version
}

// testBinaries finds the components' executables, and makes none: that can take half an hour.
func testBinaries(tb testing.TB) components {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short: a cluster needs the components' executables and some seconds")
	}
	var c components
	if handed := os.Getenv(envBinaries); handed != "" {
		if err := json.Unmarshal([]byte(handed), &c); err != nil {
			tb.Fatalf("%s: %v", envBinaries, err)
		}
		return c
	}
	c = components{Binaries: Binaries{}, Versions: map[string]versions.Version{}}
	all, err := binaries.List(tb.Context(), binaries.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	for _, b := range all {
		if b.State != binaries.Cached {
			tb.Fatalf("%s %s is %s %s: run `headroom binaries build` first, or test with -short", b.Component.Name, b.Component.Version, b.State, b.Detail)
		}
		c.Binaries[b.Component.Name] = map[versions.Version]string{b.Component.Version: b.Path}
		c.Versions[b.Component.Name] = b.Component.Version
	}
	return c
}

// testCluster is a cell with a client.
type testCluster struct {
	*Cluster
	client kubernetes.Interface
	quota  *quota.Control
}

// createCell makes a cell with nodes that run no driver.
func createCell(ctx context.Context, dir string, c components, drivers map[string]string, nodes ...string) (*testCluster, error) {
	if err := os.MkdirAll(filepath.Join(dir, "events"), 0o755); err != nil {
		return nil, err
	}
	p, err := New(Options{Run: filepath.Base(dir), RunDir: dir, Binaries: c.Binaries, Versions: c.Versions, Drivers: drivers, Seed: 1})
	if err != nil {
		return nil, err
	}
	made, err := p.Create(ctx, scenario.Topology{Nodes: nodes})
	if err != nil {
		return nil, err
	}
	t := &testCluster{Cluster: made.(*Cluster)}
	t.quota = quota.NewControl(t.Backend())
	if t.client, err = kubernetes.NewForConfig(t.RESTConfig()); err != nil {
		return nil, err
	}
	return t, nil
}

// newTestCluster is createCell for a test, which ends it.
func newTestCluster(t *testing.T, dir string, c components, drivers map[string]string, nodes ...string) *testCluster {
	t.Helper()
	began := time.Now()
	cell, err := createCell(t.Context(), dir, c, drivers, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cell up in %.2fs", time.Since(began).Seconds())
	t.Cleanup(func() {
		if err := cell.Destroy(context.Background()); err != nil {
			t.Errorf("destroy: %v", err)
		}
	})
	return cell
}

// component finds one component.
func (t *testCluster) component(tb testing.TB, id string) cluster.Component {
	tb.Helper()
	all, err := t.Components(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range all {
		if c.ID() == id {
			return c
		}
	}
	tb.Fatalf("no component %q", id)
	return nil
}

// pids are the components' process ids, inside the cell; 0 when stopped.
func (t *testCluster) pids(tb testing.TB) map[string]int {
	tb.Helper()
	var all []componentStatus
	if err := t.control.call(tb.Context(), "/components", none{}, &all); err != nil {
		tb.Fatal(err)
	}
	out := map[string]int{}
	for _, s := range all {
		out[s.ID] = s.PID
	}
	return out
}

// addTestDriver makes a driver and nodes that run it, and waits for their counts.
func (t *testCluster) addTestDriver(ctx context.Context, definition string, nodes ...string) error {
	attach := true
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: testDriver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attach}}
	if _, err := t.client.StorageV1().CSIDrivers().Create(ctx, driver, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := t.AddDriver(ctx, cluster.DriverSpec{Name: testDriver, Definition: definition}); err != nil {
		return err
	}
	var starts []func(context.Context) error
	for _, node := range nodes {
		starts = append(starts, func(context.Context) error {
			if err := t.quota.AddNode(ctx, node, quota.NodeConfig{Limit: testLimit}); err != nil {
				return err
			}
			return t.AddNode(ctx, cluster.NodeSpec{Name: node, Drivers: []string{testDriver}})
		})
	}
	if err := together(ctx, starts...); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := t.awaitCount(ctx, node, testLimit); err != nil {
			return err
		}
	}
	return nil
}

func (t *testCluster) awaitCount(ctx context.Context, node string, want int32) error {
	return eventually(ctx, func(ctx context.Context) error {
		n, err := t.client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, d := range n.Spec.Drivers {
			if d.Name == testDriver && d.Allocatable != nil && d.Allocatable.Count != nil && *d.Allocatable.Count == want {
				return nil
			}
		}
		return fmt.Errorf("CSINode %q: want driver %q with count %d, got %+v", node, testDriver, want, n.Spec.Drivers)
	})
}

// eventually calls f until it succeeds or patience has run out.
func eventually(ctx context.Context, f func(context.Context) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (after %.1fs)", err, time.Since(began).Seconds())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
