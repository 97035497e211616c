package local

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	controllerlog "sigs.k8s.io/controller-runtime/pkg/log"
)

// bringUps is how often each of the two is brought up for one figure.
const bringUps = 5

// BenchmarkBringUp compares a cell with controller-runtime's envtest on the same executables: etcd, API server, controller manager, scheduler,
// backend, a driver with its attacher and two kubelets, until both counts are in CSINode, against a bare etcd and API server. The two take turns,
// so that a busy moment of the machine falls on both. It reports and does not judge: the target, a median of at most 2.2 times envtest's and
// 2 s for the end, is for an idle machine.
func BenchmarkBringUp(b *testing.B) {
	c := testBinaries(b)
	controllerlog.SetLogger(logr.Discard())
	for b.Loop() {
		var cellUp, cellDown, envUp, envDown sample
		for range bringUps {
			up, down := timeCell(b, c)
			cellUp, cellDown = append(cellUp, up), append(cellDown, down)
			up, down = timeEnvtest(b, c)
			envUp, envDown = append(envUp, up), append(envDown, down)
		}
		ratio := cellUp.median() / envUp.median()
		b.ReportMetric(cellUp.median(), "cell-s")
		b.ReportMetric(cellDown.median(), "cell-down-s")
		b.ReportMetric(envUp.median(), "envtest-s")
		b.ReportMetric(ratio, "cell/envtest")
		b.Logf("\n%-14s    min  median     max   seconds, %d each\n%s%s%s%scell up is %.2f times envtest up", "", bringUps,
			cellUp.row("cell up"), envUp.row("envtest up"), cellDown.row("cell down"), envDown.row("envtest down"), ratio)
	}
}

// sample is a set of measurements in seconds.
type sample []float64

func (s sample) median() float64 { return slices.Sorted(slices.Values(s))[len(s)/2] }

func (s sample) row(name string) string {
	return fmt.Sprintf("%-14s %6.2f  %6.2f  %6.2f\n", name, slices.Min(s), s.median(), slices.Max(s))
}

func timeCell(b *testing.B, c components) (up, down float64) {
	ctx := context.Background()
	began := time.Now()
	t, err := createCell(ctx, filepath.Join(b.TempDir(), "run"), c, map[string]string{"steady": "steady"})
	if err != nil {
		b.Fatal(err)
	}
	err = t.addTestDriver(ctx, "steady", "n1", "n2")
	up = time.Since(began).Seconds()
	began = time.Now()
	if end := t.Destroy(ctx); end != nil || err != nil {
		b.Fatal(err, end)
	}
	return up, time.Since(began).Seconds()
}

func timeEnvtest(b *testing.B, c components) (up, down float64) {
	env := &envtest.Environment{ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience}
	env.ControlPlane.GetAPIServer().Path = c.Binaries["kube-apiserver"][c.Versions["kube-apiserver"]]
	env.ControlPlane.Etcd = &envtest.Etcd{Path: c.Binaries["etcd"][c.Versions["etcd"]]}
	began := time.Now()
	_, err := env.Start()
	up = time.Since(began).Seconds()
	began = time.Now()
	if end := env.Stop(); end != nil || err != nil {
		b.Fatal(err, end)
	}
	return up, time.Since(began).Seconds()
}

// TestSample holds the benchmark's arithmetic.
func TestSample(t *testing.T) {
	s := sample{5, 1, 4, 2, 30}
	if got := s.median(); got != 4 {
		t.Errorf("median of %v: want 4, got %v", s, got)
	}
	if got, want := strings.Fields(s.row("x")), []string{"x", "1.00", "4.00", "30.00"}; !slices.Equal(got, want) {
		t.Errorf("row of %v: want %v, got %v", s, want, got)
	}
}
