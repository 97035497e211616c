package observe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"headroom/e2e/framework/history"
)

// probing runs a probe against answer and returns the source's events at each call, and a function that ends the probe.
func probing(t *testing.T, timeout time.Duration, ticks <-chan time.Time, answer http.HandlerFunc) (events func() []history.Event, stop func()) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- probe(ctx, &rest.Config{Host: server.URL, QPS: 0.001, Burst: 1}, dir, "run-1", timeout, ticks)
	}()
	NewWithT(t).Eventually(func() error { return fileExists(dir, history.SourceProbe) }, patience).Should(Succeed())
	return func() []history.Event { return readSource(t, dir, history.SourceProbe) }, func() {
		cancel()
		NewWithT(t).Eventually(done, patience).Should(Receive(BeNil()))
	}
}

func fileExists(dir, source string) error {
	_, err := os.Stat(filepath.Join(dir, source+".jsonl"))
	return err
}

func TestProbe(t *testing.T) {
	g := NewWithT(t)
	var code atomic.Int32
	code.Store(200)
	ticks := make(chan time.Time)
	events, stop := probing(t, patience, ticks, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(int(code.Load()))
		_, _ = w.Write([]byte("etcd: not now\n"))
	})
	g.Eventually(func() int { return len(events()) }, patience).Should(Equal(2))
	code.Store(500)
	ticks <- time.Time{}
	g.Eventually(func() int { return len(events()) }, patience).Should(Equal(4), "the config's rate limit would allow one in 1000 s")
	stop()
	got := events()
	for i, want := range []history.Event{
		{Phase: history.Invoke, Op: "1"}, {Phase: history.OK, Op: "1"}, {Phase: history.Invoke, Op: "2"}, {Phase: history.Fail, Op: "2"},
	} {
		g.Expect(got[i].Phase).To(Equal(want.Phase))
		g.Expect(got[i].Op).To(Equal(want.Op))
	}
	var ok, failed history.Probe
	g.Expect(got[1].Decode(&ok)).To(Succeed())
	g.Expect(ok.Error).To(BeEmpty())
	g.Expect(time.Duration(ok.Latency)).To(Equal(got[1].At - got[0].At))
	g.Expect(got[3].Decode(&failed)).To(Succeed())
	g.Expect(failed.Error).To(Equal("status: want 200, got 500: etcd: not now"))
}

func TestProbeDoesNotPileUpOnAHangingServer(t *testing.T) {
	g := NewWithT(t)
	var open, most, all atomic.Int32
	ticks := make(chan time.Time, 1)
	events, stop := probing(t, 50*time.Millisecond, ticks, func(_ http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), open.Add(1)))
		all.Add(1)
		<-r.Context().Done()
		open.Add(-1)
	})
	for n := range int32(4) {
		// Each tick brings one request, once the one before has timed out and its server has noticed.
		g.Eventually(all.Load, patience).Should(Equal(n + 1))
		g.Eventually(open.Load, patience).Should(BeZero())
		ticks <- time.Time{}
	}
	g.Eventually(all.Load, patience).Should(BeEquivalentTo(5))
	g.Eventually(func() int { return len(events()) }, patience).Should(Equal(10))
	stop()
	g.Expect(most.Load()).To(BeEquivalentTo(1))
	for i, e := range events() {
		if i%2 == 0 {
			g.Expect(e.Phase).To(Equal(history.Invoke))
			continue
		}
		var body history.Probe
		g.Expect(e.Decode(&body)).To(Succeed())
		g.Expect(e.Phase).To(Equal(history.Fail))
		g.Expect(body.Error).To(ContainSubstring("deadline exceeded"))
		g.Expect(time.Duration(body.Latency)).To(BeNumerically(">=", 50*time.Millisecond))
	}
}

func TestProbeThatIsStoppedKnowsNothing(t *testing.T) {
	g := NewWithT(t)
	arrived := make(chan struct{}, 1)
	events, stop := probing(t, patience, nil, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	g.Eventually(arrived, patience).Should(Receive())
	stop()
	got := events()
	g.Expect(got).To(HaveLen(2))
	g.Expect(got[1].Phase).To(Equal(history.Unknown))
}

func TestProbeRefusesABrokenConfig(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Probe(context.Background(), &rest.Config{Host: "://"}, t.TempDir(), "run-1")).To(MatchError(ContainSubstring("probe: ")))
}
