package observe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"headroom/e2e/framework/history"
)

// probing runs a probe against answer and returns the source's events at each call, and a function that ends the probe.
func probing(t *testing.T, ticks <-chan time.Time, answer http.HandlerFunc) (events func() []history.Event, stop func()) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- probe(ctx, &rest.Config{Host: server.URL, QPS: 0.001, Burst: 1}, dir, "run-1", patience, ticks)
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
	events, stop := probing(t, ticks, func(w http.ResponseWriter, r *http.Request) {
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

// inMemory is a listener whose connections are pipes, so that a bubble's clock rules them.
type inMemory struct{ conns chan net.Conn }

func (l inMemory) Accept() (net.Conn, error) {
	if c, open := <-l.conns; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l inMemory) Close() error { close(l.conns); return nil }

func (l inMemory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (l inMemory) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return ours, nil
}

func TestProbeDoesNotPileUpOnAHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var open, all atomic.Int32
		l := inMemory{make(chan net.Conn)}
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Add(-1)
			all.Add(1)
			<-r.Context().Done()
		})}
		go func() { _ = server.Serve(l) }() // it ends with Close
		defer server.Close()
		dir, ticks, done := t.TempDir(), make(chan time.Time, 1), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const timeout = time.Minute
		go func() {
			done <- probe(ctx, &rest.Config{Host: "http://server", Dial: l.dial}, dir, "run-1", timeout, ticks)
		}()
		for n := range int32(5) {
			ticks <- time.Time{} // the next one's, which waits for the end of this one
			synctest.Wait()
			g.Expect(all.Load()).To(Equal(n + 1))
			g.Expect(open.Load()).To(BeEquivalentTo(1))
			time.Sleep(timeout - 1)
			synctest.Wait()
			g.Expect(all.Load()).To(Equal(n + 1))
			time.Sleep(time.Nanosecond)
		}
		synctest.Wait()
		cancel()
		g.Expect(<-done).To(Succeed())
		events := readSource(t, dir, history.SourceProbe)
		g.Expect(events).To(HaveLen(12))
		for i, e := range events {
			if i%2 == 0 {
				g.Expect(e.Phase).To(Equal(history.Invoke))
				continue
			}
			if i == 11 { // cut short
				g.Expect(e.Phase).To(Equal(history.Unknown))
				continue
			}
			var body history.Probe
			g.Expect(e.Decode(&body)).To(Succeed())
			g.Expect(e.Phase).To(Equal(history.Fail))
			g.Expect(body.Error).To(ContainSubstring("deadline exceeded"))
		}
	})
}

func TestProbeThatIsStoppedKnowsNothing(t *testing.T) {
	g := NewWithT(t)
	arrived := make(chan struct{}, 1)
	events, stop := probing(t, nil, func(_ http.ResponseWriter, r *http.Request) {
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
