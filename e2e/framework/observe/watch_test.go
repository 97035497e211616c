package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"headroom/e2e/framework/history"
)

const patience = 30 * time.Second

var testTiming = timing{
	minWait: 5 * time.Millisecond, maxWait: 20 * time.Millisecond, answer: patience, stable: 200 * time.Millisecond,
	long: time.Minute, short: time.Second,
}

func startWatch(t *testing.T, f *fakeAPI) (*Watches, string) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w, err := start(ctx, f.config(), dir, "run-1", testTiming, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, dir
}

// readSource returns the events of a source without its open and close records.
func readSource(t *testing.T, dir, source string) []history.Event {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, source+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var events []history.Event
	for line := range bytes.Lines(data) {
		var e history.Event
		if err := json.Unmarshal(line, &e); err != nil {
			continue // being written
		}
		if e.Key != history.KeyOpen && e.Key != history.KeyClose {
			events = append(events, e)
		}
	}
	return events
}

// brief writes events as "TYPE key@rev" or "gap".
func brief(t *testing.T, dir, source string) []string {
	t.Helper()
	out := []string{}
	for _, e := range readSource(t, dir, source) {
		var o history.Object
		if err := e.Decode(&o); err != nil {
			t.Fatal(err)
		}
		if e.Phase == history.Gap {
			out = append(out, "gap")
			continue
		}
		out = append(out, fmt.Sprintf("%s %s@%d", o.Type, e.Key, e.Rev))
	}
	return out
}

func csinode(name, uid string, count int) raw {
	return obj("", name, uid, raw{"spec": raw{"drivers": []raw{{"name": "d", "nodeID": name, "topologyKeys": nil, "allocatable": raw{"count": count}}}}})
}

func TestEveryChangeIsRecordedOnce(t *testing.T) {
	g := NewWithT(t)
	f := newFakeAPI(t)
	f.put(csinodesPath, csinode("n2", "b", 8)) // 101
	f.put(csinodesPath, csinode("n1", "a", 8)) // 102
	w, dir := startWatch(t, f)
	want := []string{"ADDED n2@101", "ADDED n1@102"}
	g.Expect(brief(t, dir, "api/csinodes")).To(Equal(want), "Watch returns with the first state on record")
	for i := range 60 {
		rev := f.put(csinodesPath, csinode("n1", "a", i))
		want = append(want, fmt.Sprintf("MODIFIED n1@%d", rev))
	}
	want = append(want, fmt.Sprintf("DELETED n1@%d", f.remove(csinodesPath, csinode("n1", "a", 1))))
	g.Eventually(func() []string { return brief(t, dir, "api/csinodes") }, patience).Should(Equal(want))
	g.Expect(w.Close()).To(Succeed())
	g.Expect(w.Close()).To(Succeed())

	g.Expect(history.Merge(dir, history.Header{Run: "run-1"}, filepath.Join(t.TempDir(), "h"))).To(Succeed())
	for _, r := range []string{
		"csinodes", "csidrivers", "nodes", "pods", "persistentvolumeclaims", "persistentvolumes", "volumeattachments", "events",
	} {
		g.Expect(filepath.Join(dir, "api", r+".jsonl")).To(BeARegularFile())
	}
	e := readSource(t, dir, "api/csinodes")[0]
	var body history.CSINode
	g.Expect(e.Decode(&body)).To(Succeed())
	g.Expect(e.Node).To(Equal("n2"))
	g.Expect(e.Phase).To(Equal(history.Observed))
	g.Expect(*body.Drivers[0].Count).To(BeEquivalentTo(8))
	g.Expect(body.UID).To(Equal("b"))
}

func TestReconnectLosesNothing(t *testing.T) {
	g := NewWithT(t)
	f := newFakeAPI(t)
	f.put(csinodesPath, csinode("n1", "a", 8))
	_, dir := startWatch(t, f)
	for i := range 3 {
		f.cut(func() { f.down, f.refuse = i == 0, 503 })
		f.put(csinodesPath, csinode("n1", "a", 5))
		f.put(csinodesPath, csinode("n1", "a", 6))
		tries := len(f.seen(isCSINodeWatch))
		g.Eventually(func() int { return len(f.seen(isCSINodeWatch)) }, patience).Should(BeNumerically(">=", tries+3), "it keeps trying")
		f.with(func() { f.down, f.refuse = false, 0 })
		g.Eventually(func() int { return len(readSource(t, dir, "api/csinodes")) }, patience).Should(Equal(3 + 2*i))
	}
	g.Eventually(func() []string { return brief(t, dir, "api/csinodes") }, patience).Should(Equal([]string{
		"ADDED n1@101", "MODIFIED n1@102", "MODIFIED n1@103", "MODIFIED n1@104", "MODIFIED n1@105", "MODIFIED n1@106", "MODIFIED n1@107",
	}))
}

func isCSINodeWatch(r request) bool { return r.watch && r.path == csinodesPath }

func TestExpiredIsAGapAndADifference(t *testing.T) {
	for _, in200 := range []bool{false, true} {
		t.Run(fmt.Sprintf("as an event %v", in200), func(t *testing.T) {
			g := NewWithT(t)
			f := newFakeAPI(t)
			f.in200 = in200
			f.put(csinodesPath, csinode("same", "s", 1))    // 101
			f.put(csinodesPath, csinode("changed", "c", 1)) // 102
			f.put(csinodesPath, csinode("gone", "g", 1))    // 103
			f.put(csinodesPath, csinode("again", "x", 1))   // 104
			_, dir := startWatch(t, f)
			f.cut(func() { f.refuse = 500 })
			f.put(csinodesPath, csinode("changed", "c", 2))   // 105
			f.put(csinodesPath, csinode("changed", "c", 3))   // 106
			f.remove(csinodesPath, csinode("gone", "g", 1))   // 107
			f.remove(csinodesPath, csinode("again", "x", 1))  // 108
			f.put(csinodesPath, csinode("again", "y", 4))     // 109
			f.put(csinodesPath, csinode("new", "n", 5))       // 110
			f.put(csinodesPath, csinode("unseen", "u", 5))    // 111
			f.remove(csinodesPath, csinode("unseen", "u", 5)) // 112
			f.with(func() { f.compacted, f.refuse = f.rev, 0 })
			want := []string{
				"ADDED same@101", "ADDED changed@102", "ADDED gone@103", "ADDED again@104",
				"gap", "DELETED again@0", "DELETED gone@0", "MODIFIED changed@106", "ADDED again@109", "ADDED new@110",
			}
			g.Eventually(func() []string { return brief(t, dir, "api/csinodes") }, patience).Should(Equal(want))
			f.put(csinodesPath, csinode("same", "s", 2))
			g.Eventually(func() []string { return brief(t, dir, "api/csinodes") }, patience).Should(Equal(append(want, "MODIFIED same@113")))
			var reason history.GapReason
			g.Expect(readSource(t, dir, "api/csinodes")[4].Decode(&reason)).To(Succeed())
			g.Expect(reason.Reason).To(ContainSubstring("changes after revision 104 and up to 112 may be lost; 5 objects differ"))
		})
	}
}

func TestBookmarksMoveTheContinuation(t *testing.T) {
	g := NewWithT(t)
	f := newFakeAPI(t)
	w, dir := startWatch(t, f)
	f.put(podsPath, obj("default", "p", "p", nil)) // csinodes do not see this revision but by a bookmark
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.Expect(w.Sync(ctx, 101)).To(Succeed())
	f.cut(func() { f.compacted = f.rev })
	f.put(csinodesPath, csinode("n1", "a", 1))
	g.Eventually(func() []string { return brief(t, dir, "api/csinodes") }, patience).Should(Equal([]string{"ADDED n1@102"}), "and no gap")
	g.Expect(brief(t, dir, "api/pods")).To(Equal([]string{"ADDED default/p@101"}))
}

func TestAServerThatClosesAtOnceIsNotHammered(t *testing.T) {
	g := NewWithT(t)
	f := newFakeAPI(t)
	w, dir := startWatch(t, f)
	g.Eventually(func() int { return len(f.seen(isCSINodeWatch)) }, patience).Should(Equal(1))
	f.cut(func() { f.empty = true })
	const tries = 10
	g.Eventually(func() int { return len(f.seen(isCSINodeWatch)) }, patience).Should(BeNumerically(">", 1+tries))
	all := f.seen(isCSINodeWatch)
	// 5 or 10 ms, then 20 ms each: at least 150 ms for ten.
	g.Expect(all[1+tries].at.Sub(all[1].at)).To(BeNumerically(">=", 150*time.Millisecond))
	g.Expect(w.Close()).To(Succeed())
	events := readSource(t, dir, "api/csinodes")
	g.Expect(events).To(HaveLen(1), "broken at the end: its end may be missing")
	g.Expect(events[0].Phase).To(Equal(history.Gap))
	g.Expect(string(events[0].Body)).To(ContainSubstring(errClosedAtOnce.Error()))
}

func TestWatchSaysWhatKeptItFromStarting(t *testing.T) {
	f := newFakeAPI(t)
	f.with(func() { f.refuse = 403 })
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for len(f.seen(func(request) bool { return true })) < 3 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := start(ctx, f.config(), t.TempDir(), "run-1", testTiming, nil)
	if err == nil || !strings.Contains(err.Error(), "first list of namespaces: context canceled (last error: list namespaces:") {
		t.Fatalf("want an error that names the list and its cause, got %v", err)
	}
}

func TestANewBreakAtTheEndIsAGap(t *testing.T) {
	g := NewWithT(t)
	f := newFakeAPI(t)
	w, dir := startWatch(t, f)
	f.cut(func() { f.down = true })
	// The client tries again for 10 s before it calls that an error; the stream does not wait for it.
	g.Eventually(func() error {
		s := w.streams[0]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.failing
	}, patience).Should(MatchError(ContainSubstring("no answer after 200ms")))
	g.Expect(w.Close()).To(Succeed())
	g.Expect(brief(t, dir, "api/csinodes")).To(Equal([]string{"gap"}))
}

// TestALateAnswerIsNoBreak: a watch is broken as long as it is not answered, and no longer. What was wrong before stays wrong until it has worked.
func TestALateAnswerIsNoBreak(t *testing.T) {
	for _, before := range []error{nil, errClosedAtOnce} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			const stable = time.Second
			r := resource{name: "csinodes", watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				time.Sleep(2 * stable)
				return watch.NewFake(), nil
			}}
			s := newStream(r, timing{answer: time.Minute, stable: stable, long: time.Minute}, nil, nil, nil)
			s.from, s.failing = "1", before
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := s.follow(ctx, "1")
				done <- err
			}()
			failing := func() error {
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.failing
			}
			time.Sleep(stable)
			g.Expect(failing()).To(MatchError(ContainSubstring("no answer after 1s")))
			time.Sleep(stable)
			if before == nil {
				g.Expect(failing()).NotTo(HaveOccurred())
			} else {
				g.Expect(failing()).To(MatchError(before))
			}
			time.Sleep(stable)
			g.Expect(failing()).NotTo(HaveOccurred())
			cancel()
			g.Expect(<-done).To(Succeed())
		})
	}
}
