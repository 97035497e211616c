package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"headroom/e2e/framework/history"
)

// timing holds the durations of a stream; tests shorten them.
type timing struct {
	minWait, maxWait time.Duration // between two tries
	answer           time.Duration // for a list, and for the first byte of a watch
	stable           time.Duration // a watch that lives this long works, even if it brings nothing
	long, short      time.Duration // of one watch, asked of the server; short ones are for Sync
}

var defaultTiming = timing{
	minWait: 100 * time.Millisecond, maxWait: 2 * time.Second, answer: 15 * time.Second, stable: time.Second,
	long: 5 * time.Minute,
	// The API server sends a bookmark 2 s before a watch's time-out (storage/cacher nextBookmarkTime), so this is the quickest way to one.
	short: 3 * time.Second,
}

// seen is the last state of one object.
type seen struct {
	obj metav1.Object
	rev int64
}

// stream records all changes of one resource. One goroutine runs it; Sync and Close look in from outside.
type stream struct {
	resource
	timing
	out    *history.Writer
	scopes *scopes
	// memory tells what a watch missed; nil where nothing does.
	memory Memory
	listed chan struct{} // closed when the first list is recorded

	mu       sync.Mutex
	objects  map[string]seen
	from     string        // revision to continue after; "" asks for a list
	progress int64         // every change up to this revision has been recorded
	target   int64         // Sync waits for this revision: watches are short until it is reached
	opened   int           // counts watches
	whole    int           // the last watch that lived until the server's time-out
	marks    bool          // bookmarks have come
	lost     string        // why changes may have been lost since the last list; recorded with the next one
	failing  error         // why the stream does not work now
	behind   error         // why the last Sync failed
	restart  func()        // ends the watch that is open
	moved    chan struct{} // closed and replaced when something above moves
}

func newStream(r resource, t timing, out *history.Writer, s *scopes, m Memory) *stream {
	return &stream{
		resource: r, timing: t, out: out, scopes: s, memory: m,
		listed: make(chan struct{}), moved: make(chan struct{}), objects: map[string]seen{}, restart: func() {},
	}
}

// set changes the shared state and wakes up who waits for it.
func (s *stream) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.moved)
	s.moved = make(chan struct{})
}

// run lists and watches until ctx ends. It never gives up: a server may be away for minutes.
func (s *stream) run(ctx context.Context) {
	wait := s.minWait
	for ctx.Err() == nil {
		s.mu.Lock()
		from := s.from
		s.mu.Unlock()
		var worked bool
		var err error
		if from == "" {
			worked, err = s.relist(ctx)
		} else {
			worked, err = s.follow(ctx, from)
		}
		wait = min(2*wait, s.maxWait)
		if worked {
			wait = s.minWait
		}
		if err != nil && ctx.Err() == nil {
			s.set(func() { s.failing = err })
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// relist records how the server's state differs from what was seen: everything, the first time.
func (s *stream) relist(ctx context.Context) (bool, error) {
	objects, version, err := s.fetch(ctx)
	if err != nil {
		return false, err
	}
	at := history.Now()
	changes := s.difference(objects)
	s.mu.Lock()
	lost, after := s.lost, s.progress
	s.mu.Unlock()
	if lost != "" {
		missed, err := s.remember(ctx, objects, after, revision(version))
		if err == nil {
			changes, lost = missed, ""
		} else if !errors.Is(err, errNoMemory) {
			lost = fmt.Sprintf("%s (%v)", lost, err)
		}
	}
	s.mu.Lock()
	if lost != "" {
		lost += fmt.Sprintf(": changes after revision %d and up to %s may be lost; %d objects differ", s.progress, version, len(changes))
	}
	s.mu.Unlock()
	if lost != "" {
		s.out.Write(gap(lost))
	}
	for _, c := range changes {
		if err := s.record(ctx, c, at); err != nil {
			return false, err
		}
	}
	s.set(func() { s.from, s.progress, s.lost, s.failing = version, revision(version), "", nil })
	select {
	case <-s.listed:
	default:
		close(s.listed)
	}
	return true, nil
}

// fetch lists the resource as it is now (not from a cache that may be older) and returns the list's resourceVersion.
func (s *stream) fetch(ctx context.Context) (map[string]seen, string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.answer)
	defer cancel()
	list, err := s.list(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list %s: %w", s.name, err)
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", fmt.Errorf("list %s: %w", s.name, err)
	}
	if revision(l.GetResourceVersion()) == 0 {
		return nil, "", fmt.Errorf("list %s: resourceVersion: want a number above 0, got %q", s.name, l.GetResourceVersion())
	}
	objects := map[string]seen{}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		obj, err := meta.Accessor(o)
		if err == nil {
			objects[key(obj)] = seen{obj: obj, rev: revision(obj.GetResourceVersion())}
		}
		return err
	})
	return objects, l.GetResourceVersion(), err
}

// change is one thing to record. rev is 0 where the revision of the change is not known.
type change struct {
	kind watch.EventType
	obj  metav1.Object
	rev  int64
}

// difference returns what happened, as far as two states tell: first what is gone, then the rest in the order of revisions. The revision of a
// deletion that nobody saw is not known.
func (s *stream) difference(now map[string]seen) []change {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone, rest []change
	for k, old := range s.objects {
		if n, ok := now[k]; !ok || n.obj.GetUID() != old.obj.GetUID() {
			gone = append(gone, change{kind: watch.Deleted, obj: old.obj})
		}
	}
	for k, n := range now {
		old, ok := s.objects[k]
		switch {
		case !ok || old.obj.GetUID() != n.obj.GetUID():
			rest = append(rest, change{watch.Added, n.obj, n.rev})
		case old.rev != n.rev:
			rest = append(rest, change{watch.Modified, n.obj, n.rev})
		}
	}
	slices.SortFunc(gone, func(a, b change) int { return cmp.Compare(key(a.obj), key(b.obj)) })
	slices.SortFunc(rest, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.rev, b.rev), cmp.Compare(key(a.obj), key(b.obj)))
	})
	return append(gone, rest...)
}

// record writes one change and remembers the object.
func (s *stream) record(ctx context.Context, c change, at time.Duration) error {
	node, body, err := s.describe(c.obj, object(c.kind, c.obj))
	if err != nil {
		return err
	}
	k := key(c.obj)
	s.out.Write(history.Event{
		At: at, Phase: history.Observed, Rev: c.rev, Key: k, Node: node, Scope: s.scopes.of(ctx, c.obj), Body: history.Encode(body),
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.kind == watch.Deleted {
		delete(s.objects, k)
	} else {
		s.objects[k] = seen{obj: c.obj, rev: c.rev}
	}
	return nil
}

func key(obj metav1.Object) string {
	if ns := obj.GetNamespace(); ns != "" {
		return ns + "/" + obj.GetName()
	}
	return obj.GetName()
}

// revision reads a resourceVersion of a built-in resource, which is etcd's revision; 0 where it is none.
func revision(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// expired reports whether the server no longer has the changes after the revision asked for.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}
