package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// bringUps is how often each is brought up for one figure.
const bringUps = 5

// BenchmarkBringUp compares a cell with controller-runtime's envtest on the same executables: a cell (etcd, API server, controller manager,
// scheduler, backend, driver, attacher, two kubelets, both counts in CSINode) with a bare etcd and API server. Each is brought up five times, in
// turn, so that a busy moment of the machine falls on both; the figures are medians.
func BenchmarkBringUp(b *testing.B) {
	c := testBinaries(b)
	n := bringUps
	if s := os.Getenv("HEADROOM_BRINGUPS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for b.Loop() {
		var cellUp, cellDown, envUp, envDown []time.Duration
		for range n {
			up, down := timeCell(b, c)
			cellUp, cellDown = append(cellUp, up), append(cellDown, down)
			if os.Getenv("HEADROOM_NOENV") == "" {
				up, down = timeEnvtest(b, c)
			}
			envUp, envDown = append(envUp, up), append(envDown, down)
		}
		ratio := median(cellUp).Seconds() / median(envUp).Seconds()
		b.ReportMetric(median(cellUp).Seconds(), "cell-s")
		b.ReportMetric(median(cellDown).Seconds(), "cell-down-s")
		b.ReportMetric(median(envUp).Seconds(), "envtest-s")
		b.ReportMetric(ratio, "cell/envtest")
		table := fmt.Sprintf("\nmedian of %d, seconds      min   median   max\n", n)
		for _, row := range []struct {
			name string
			took []time.Duration
		}{{"cell up", cellUp}, {"envtest up", envUp}, {"cell down", cellDown}, {"envtest down", envDown}} {
			slices.Sort(row.took)
			table += fmt.Sprintf("%-22s %7.2f  %7.2f %5.2f\n", row.name, row.took[0].Seconds(), median(row.took).Seconds(), row.took[n-1].Seconds())
		}
		fmt.Printf("%scell/envtest %.2f\n", table, ratio)
	}
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func timeCell(b *testing.B, c components) (up, down time.Duration) {
	ctx := context.Background()
	dir := filepath.Join(b.TempDir(), "run")
	if keep := os.Getenv("HEADROOM_KEEP"); keep != "" {
		dir, _ = os.MkdirTemp(keep, "run-*")
	}
	began := time.Now()
	t, err := createCell(ctx, dir, c, map[string]string{"steady": "steady"})
	if err != nil {
		b.Fatal(err)
	}
	dumpCPU(t.life.pid)
	err = t.addTestDriver(ctx, "steady", "n1", "n2")
	up = time.Since(began)
	dumpCPU(t.life.pid)
	began = time.Now()
	if end := t.Destroy(ctx); end != nil || err != nil {
		b.Fatal(err, end)
	}
	return up, time.Since(began)
}

func timeEnvtest(b *testing.B, c components) (up, down time.Duration) {
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Path = c.Binaries["kube-apiserver"][c.Versions["kube-apiserver"]]
	env.ControlPlane.Etcd = &envtest.Etcd{Path: c.Binaries["etcd"][c.Versions["etcd"]]}
	began := time.Now()
	_, err := env.Start()
	up = time.Since(began)
	dumpCPU(os.Getpid())
	began = time.Now()
	if end := env.Stop(); end != nil || err != nil {
		b.Fatal(err, end)
	}
	return up, time.Since(began)
}
