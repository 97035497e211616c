package observe

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	"headroom/e2e/framework/history"
)

func TestSyncWaitsForWhatTheServerHas(t *testing.T) {
	for _, tc := range []struct {
		name      string
		bookmarks bool
		change    func(*fakeAPI)
		want      []string
	}{
		{"changed", true, func(f *fakeAPI) { f.put(csinodesPath, csinode("n1", "a", 2)) }, []string{"MODIFIED n1@103"}},
		{"changed, no bookmarks", false, func(f *fakeAPI) { f.put(csinodesPath, csinode("n1", "a", 2)) }, []string{"MODIFIED n1@103"}},
		{"deleted, no bookmarks", false, func(f *fakeAPI) { f.remove(csinodesPath, csinode("n1", "a", 1)) }, []string{"DELETED n1@103"}},
		{"made and deleted", true, func(f *fakeAPI) {
			f.put(csinodesPath, csinode("n2", "b", 2))
			f.remove(csinodesPath, csinode("n2", "b", 2))
		}, []string{"ADDED n2@103", "DELETED n2@104"}},
		{"nothing, no bookmarks", false, func(*fakeAPI) {}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFakeAPI(t)
			f.bookmarks = tc.bookmarks
			f.put(csinodesPath, csinode("n1", "a", 1))
			w, dir := startWatch(t, f)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			f.put(podsPath, obj("default", "p", "p", nil)) // 102
			if tc.bookmarks {
				g.Expect(w.Sync(ctx, 0)).To(Succeed())
			}
			f.with(func() { f.hold = true })
			tc.change(f)
			done := make(chan error, 1)
			go func() { done <- w.Sync(ctx, f.rev) }()
			if tc.want != nil && tc.bookmarks {
				// Two whole short watches of CSINodes have come and gone without a word: Sync still has not got what it waits for.
				g.Eventually(func() int { return len(f.seen(isCSINodeWatch)) }, patience).Should(BeNumerically(">=", 5))
				g.Expect(done).NotTo(Receive())
			}
			f.with(func() { f.hold = false })
			g.Eventually(done, patience).Should(Receive(BeNil()))
			g.Expect(brief(t, dir, "api/csinodes")).To(Equal(append([]string{"ADDED n1@101"}, tc.want...)))
			g.Expect(w.Close()).To(Succeed())
			g.Expect(brief(t, dir, "api/csinodes")).NotTo(ContainElement("gap"))
		})
	}
}

func TestSyncFailsWhileAChangeIsOutstanding(t *testing.T) {
	g := NewWithT(t)
	f := newFakeAPI(t)
	w, dir := startWatch(t, f)
	f.with(func() { f.hold = true })
	f.put(csinodesPath, csinode("n1", "a", 1)) // 101
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Sync(ctx, 0) }()
	// Several short watches have come and gone.
	g.Eventually(func() int { return len(f.seen(isCSINodeWatch)) }, patience).Should(BeNumerically(">=", 4))
	g.Expect(done).NotTo(Receive())
	cancel()
	var err error
	g.Eventually(done, patience).Should(Receive(&err))
	g.Expect(err).To(MatchError(ContainSubstring("sync csinodes: want revision 101, recorded up to 100 after ")))
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(w.Close()).To(Succeed())
	events := readSource(t, dir, "api/csinodes")
	g.Expect(events).NotTo(BeEmpty())
	last := events[len(events)-1]
	g.Expect(last.Phase).To(Equal(history.Gap), "the end is missing, and the history says so")
}

func TestSyncWantsTheRevisionAskedFor(t *testing.T) {
	g := NewWithT(t)
	f := newFakeAPI(t)
	w, _ := startWatch(t, f)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Sync(ctx, 103) }()
	lists := func(r request) bool { return !r.watch && r.path == csinodesPath }
	g.Eventually(func() int { return len(f.seen(lists)) }, patience).Should(BeNumerically(">=", 3))
	g.Expect(done).NotTo(Receive())
	f.put(podsPath, obj("default", "p", "p", nil))
	f.put(podsPath, obj("default", "p", "p", nil))
	f.put(podsPath, obj("default", "p", "p", nil))
	g.Eventually(done, patience).Should(Receive(BeNil()))
}

func TestARevisionThatGoesBackIsAGap(t *testing.T) {
	g := NewWithT(t)
	f := newFakeAPI(t)
	f.put(csinodesPath, csinode("n1", "a", 1))
	w, dir := startWatch(t, f)
	f.with(func() { // etcd restored from an older copy
		f.rev = 50
		f.log[csinodesPath] = nil
	})
	f.put(csinodesPath, csinode("n1", "a", 2))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.Expect(w.Sync(ctx, 0)).To(Succeed())
	g.Expect(brief(t, dir, "api/csinodes")).To(Equal([]string{"ADDED n1@101", "gap", "MODIFIED n1@51"}))
}
