package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sync waits until every watch has recorded all changes up to the API server's present revision, which must have reached rev (0: any will do;
// Events may be kept in an etcd of their own, so rev is not asked of them). It writes nothing to the cluster and takes about 3 s on a cluster at
// rest.
//
// How: a consistent list of each resource tells the present revision. The watch has got there when an event or a bookmark carries that revision or
// a later one. The server sends bookmarks once a minute and 2 s before a watch's time-out, so Sync makes the watch start again, where it stands,
// with a short one. A resource that the server does not serve from its watch cache (Events, by default) gets no bookmarks: there Sync is content
// when a short watch that began after the list has lived its whole time, nothing listed is newer than what was seen, and nothing seen is missing
// from the list. (The lists alone would overlook an object that was made and deleted since the last event.)
// The error, after ctx ends, names the resources that are behind.
func (w *Watches) Sync(ctx context.Context, rev int64) error {
	errs := make([]error, len(w.streams))
	var all sync.WaitGroup
	for i, s := range w.streams {
		all.Go(func() {
			floor := rev
			if s.name == "events" {
				floor = 0
			}
			errs[i] = s.sync(ctx, floor)
			s.set(func() { s.behind = errs[i] })
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *stream) sync(ctx context.Context, rev int64) error {
	start := time.Now()
	last := errors.New("none")
	for {
		objects, now, err := s.present(ctx, rev)
		if err == nil {
			if err = s.reach(ctx, objects, now); err == nil {
				return nil
			}
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			want := max(rev, now)
			return fmt.Errorf("sync %s: want revision %d, recorded up to %d after %s: %w (last error: %v)",
				s.name, want, s.progress, time.Since(start).Round(time.Millisecond), context.Cause(ctx), errors.Join(last, s.failing))
		case <-time.After(s.minWait):
		}
	}
}

// present lists the resource and returns the server's present revision.
func (s *stream) present(ctx context.Context, rev int64) (map[string]seen, int64, error) {
	s.mu.Lock()
	before := s.progress
	s.mu.Unlock()
	objects, version, err := s.fetch(ctx)
	now := revision(version)
	switch {
	case err != nil:
		return nil, 0, err
	case now < before:
		// A watch after a revision that no longer exists would stay silent for ever.
		err = fmt.Errorf("list %s: the revision went back from %d to %d: was etcd restored?", s.name, before, now)
		s.set(func() {
			if s.progress == before && s.lost == "" { // else a new list is on its way, or was there before this answer
				s.from, s.lost = "", err.Error()
				s.restart()
			}
		})
	case now < rev:
		err = fmt.Errorf("list %s: the API server is at revision %d, want at least %d", s.name, now, rev)
	}
	return objects, now, err
}

// reach waits until the stream has recorded everything up to revision now, at which objects were listed.
func (s *stream) reach(ctx context.Context, objects map[string]seen, now int64) error {
	newest := int64(0)
	for _, o := range objects {
		newest = max(newest, o.rev)
	}
	var opened int
	s.set(func() {
		opened = s.opened
		if s.progress < now {
			s.target = max(s.target, now)
			s.restart()
		}
	})
	defer s.set(func() {
		if s.target == now { // a later Sync may want more
			s.target = 0
		}
	})
	for {
		s.mu.Lock()
		done := s.progress >= now || !s.marks && s.whole > opened && s.progress >= newest && s.allListed(objects)
		moved := s.moved
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// allListed reports whether every object that counts as existing is in the list.
func (s *stream) allListed(objects map[string]seen) bool {
	for k := range s.objects {
		if _, ok := objects[k]; !ok {
			return false
		}
	}
	return true
}
