package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/observe"
	"headroom/e2e/framework/report/signals"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/stoprules"
	"headroom/e2e/framework/versions"
)

const (
	// bakeLook is the time between two looks at the signals.
	bakeLook = 2 * time.Second
	// behind is how far the signals lag, so that what happened is written by then.
	behind = 500 * time.Millisecond
)

// stopError is a broken stop rule that ended the walk.
type stopError struct {
	stoprules.Broken
	// held is what kept the counts from being kept, nil where nothing did.
	held error
}

func (e *stopError) Error() string { return fmt.Sprintf("stop rule %q: %s", e.Rule.Name, e.Detail) }

// watcher reads the signals of the run that it is part of.
type watcher struct {
	walk    *walk
	live    *history.Live
	audit   *observe.AuditTail
	signals *signals.Collector
	// trusted are the counts of nodes when all changes of quota had arrived last and no rule was broken.
	trusted map[string]int32
}

func newWatcher(w *walk) *watcher {
	return &watcher{
		walk: w, live: history.NewLive(w.EventsDir()), audit: observe.NewAuditTail(run.AuditLog(w.Dir), w.EventsDir()), signals: signals.New(w.Header),
		trusted: map[string]int32{},
	}
}

// look reads what is new, and returns the signals from a time on.
func (b *watcher) look(from time.Duration) (signals.Signals, error) {
	upTo := history.Now() - behind
	events, err := b.live.Read(upTo)
	if err != nil {
		return signals.Signals{}, cluster.Environment("read the signals", err)
	}
	writes, err := b.audit.Read(upTo)
	if err != nil {
		return signals.Signals{}, cluster.Environment("read the signals", err)
	}
	for _, e := range history.Ordered(append(events, writes...)) {
		b.signals.Observe(e)
	}
	return b.signals.Since(from), nil
}

// bounds are what holds now. A quota can change by all that there is room for, and the driver rises by one step an interval, which a refused attach makes
// one longer.
func (b *watcher) bounds() stoprules.Bounds {
	w := b.walk
	if !w.period {
		return stoprules.Bounds{}
	}
	bounds := stoprules.Bounds{Period: Period}
	if d := w.Header.Params.Driver; w.refreshes() {
		bounds.UpdateDelay = time.Duration(d.CacheAge) + 2*Period + w.Slack()
		if d.Step > 0 {
			steps := (mostRoom-1+d.Step-1)/d.Step + 1
			bounds.UpdateDelay += time.Duration(steps) * max(time.Duration(d.StepInterval), Period)
		}
	}
	return bounds
}

// look is one look at the signals, as it is recorded.
type look struct {
	Bounds  stoprules.Bounds `json:"bounds"`
	Signals signals.Signals  `json:"signals"`
}

// decision is what a look leads to.
type decision struct {
	// broken is the rule that is told of now, nil for none.
	broken *stoprules.Broken
	// stop ends the walk, pause ends growth for the time of one bake.
	stop, pause bool
	// open says that a change of quota is on its way that must be waited for; trust that the counts are to be trusted.
	open, trust bool
}

// decider decides over the looks of one bake, in order. The zero value has seen none.
type decider struct{ rolledBack int }

func (d *decider) decide(l look) (what decision) {
	broken := stoprules.Check(l.Signals, l.Bounds)
	what.open = l.Bounds.UpdateDelay > 0 && l.Signals.UpdateDelay.Open > 0
	what.trust = len(broken) == 0 && !what.open && l.Signals.CountChanges.Unasked == 0
	for _, r := range broken {
		switch {
		case !r.Pause:
			what.broken, what.stop = &r, true
			return what
		case l.Signals.CountChanges.RolledBack > d.rolledBack: // each is told of once
			d.rolledBack = l.Signals.CountChanges.RolledBack
			what.broken, what.pause = &r, true
		}
	}
	return what
}

// bake lets time pass and watches the signals of it. Where a change of quota can be expected to arrive, it ends with one on every node, which is waited for:
// those before may have been overtaken by others. A rollback of values pauses growth and begins the time anew, after which the workload may grow again.
func (b *watcher) bake(ctx context.Context, s *step) error {
	from := history.Now()
	until, seen := time.Now().Add(s.For), decider{}
	load := b.walk.load
	release := sync.OnceFunc(load.squeeze(ctx))
	defer release()
	written, end := func() bool { return true }, func() {}
	if b.walk.StaleWriter && b.bounds().UpdateDelay > 0 {
		written, end = load.beside(ctx, b.walk.staleWrite)
		defer end()
	}
	last := false // the last changes were made
	for {
		if err := run.Pause(ctx, bakeLook); err != nil {
			return err
		}
		now, err := b.look(from)
		if err != nil {
			return err
		}
		l := look{Bounds: b.bounds(), Signals: now}
		b.walk.write(history.Event{Phase: history.Observed, Op: s.op(), Key: history.KeyLook, Body: history.Encode(l)})
		what := seen.decide(l)
		if what.broken != nil {
			b.walk.write(history.Event{Phase: history.Observed, Op: s.op(), Key: history.KeyStop, Body: history.Encode(history.WalkStop{
				Rule: what.broken.Name, Signal: what.broken.Signal, Pause: what.broken.Pause, Detail: what.broken.Detail,
			})})
		}
		switch {
		case what.stop:
			end()
			return &stopError{Broken: *what.broken, held: b.walk.hold(ctx)} // at once: the load ends in its own time
		case what.pause:
			load.pauseGrowth()
			until = time.Now().Add(s.For)
		}
		if what.trust {
			b.trust(now)
		}
		switch {
		case time.Now().Before(until) || !written():
		case l.Bounds.UpdateDelay > 0 && !last:
			release()
			thaw, err := load.lastChange(ctx)
			if err != nil {
				return err
			}
			defer thaw()
			last = true
		case !what.open:
			load.resumeGrowth()
			return load.settled(ctx)
		}
	}
}

// trust keeps the counts of the signals.
func (b *watcher) trust(s signals.Signals) {
	for _, v := range s.Volumes {
		if v.Driver == b.walk.Driver && v.Count != nil {
			b.trusted[v.Node] = *v.Count
		}
	}
}

// hold is what a broken stop rule leads to: the period is unset, so that no kubelet asks the driver again, and counts are put back to where they could be
// trusted last.
func (w *walk) hold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.Session.Stretch(limit))
	defer cancel()
	w.load.pauseGrowth()
	if err := w.unsetPeriod(ctx); err != nil {
		return fmt.Errorf("unset the period: %w", err)
	}
	if !versions.Embedded().Works(versions.CountMutable, w.running()).Works {
		return nil // nobody but a registration changes a count there
	}
	for _, node := range slices.Sorted(maps.Keys(w.bakes.trusted)) {
		count := w.bakes.trusted[node]
		// A refresh that was under way may still write: it is only kept once it stays.
		kept := time.Time{}
		err := w.await(ctx, 2*stores, func(ctx context.Context) error {
			changed, err := w.putBack(ctx, node, count)
			if err != nil {
				return err
			}
			if changed || kept.IsZero() {
				kept = time.Now()
			}
			if time.Since(kept) < w.Slack() {
				return fmt.Errorf("CSINode %q: want count %d for %s, got it for %s", node, count, w.Slack(), time.Since(kept).Round(time.Millisecond))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("keep the last trusted count: %w", err)
		}
	}
	return nil
}

// putBack makes a node's count what it was, where it is something else, and says whether it did.
func (w *walk) putBack(ctx context.Context, node string, count int32) (changed bool, err error) {
	n, err := w.Client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	for i, d := range n.Spec.Drivers {
		if d.Name != w.Driver || d.Allocatable != nil && d.Allocatable.Count != nil && *d.Allocatable.Count == count {
			continue
		}
		n.Spec.Drivers[i].Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		return true, w.Record("update", "csinode", node, run.Administrator, func() error {
			_, err := w.Client.StorageV1().CSINodes().Update(ctx, n, metav1.UpdateOptions{})
			return err
		})
	}
	return false, nil
}
