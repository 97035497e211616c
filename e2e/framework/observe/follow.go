package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"headroom/e2e/framework/history"
)

var errClosedAtOnce = errors.New("the server closed the watch at once")

// follow runs one watch after revision from until it ends, for whatever reason, and reports whether it worked at all. The next watch goes on where
// this one stopped, so an end loses nothing, unless the server says that the revision has expired.
func (s *stream) follow(life context.Context, from string) (worked bool, err error) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	length, number, current := s.long, 0, false
	s.set(func() {
		current = s.from == from
		s.opened++
		number, s.restart = s.opened, cancel
		if s.target > s.progress {
			length = s.short
		}
	})
	if !current { // Sync asked for a list just before it could end this watch
		return true, nil
	}
	length = max(length, time.Second)
	seconds := int64(length / time.Second)
	// A connection that died without a word must not hold the stream for ever.
	defer time.AfterFunc(length+s.answer, cancel).Stop()
	begun := time.Now()
	answered := s.awaited(from)
	unanswered := time.AfterFunc(s.answer, cancel)
	w, err := s.watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	answered(err)
	unanswered.Stop()
	if err != nil {
		return false, s.failed(fmt.Errorf("watch %s after revision %s for %s: %w", s.name, from, time.Since(begun).Round(time.Millisecond), err))
	}
	defer w.Stop()
	stable := time.NewTimer(s.stable)
	defer stable.Stop()
	for {
		select {
		case <-ctx.Done():
			return worked, nil
		case <-stable.C:
			worked = true
			s.set(func() { s.failing = nil })
		case e, open := <-w.ResultChan():
			switch {
			case !open && ctx.Err() != nil: // ended from this side
				return worked, nil
			case !open && !worked:
				return false, fmt.Errorf("watch %s after revision %s: %w", s.name, from, errClosedAtOnce)
			case !open:
				if time.Since(begun) > length*9/10 {
					s.set(func() { s.whole = number })
				}
				return true, nil
			}
			if err := s.take(life, e); err != nil {
				return worked, s.failed(err)
			}
			worked = true
		}
	}
}

// awaited makes the stream fail while a watch is not answered for long. The function that it returns is told of the answer: what kept the stream from
// working before the watch is then all that may still do so.
func (s *stream) awaited(from string) (answered func(error)) {
	var over, late bool
	var before error
	slow := time.AfterFunc(s.stable, func() {
		s.set(func() {
			if late = !over; late {
				before, s.failing = s.failing, fmt.Errorf("watch %s after revision %s: no answer after %s", s.name, from, s.stable)
			}
		})
	})
	return func(err error) {
		slow.Stop()
		s.set(func() {
			if over = true; late && err == nil {
				s.failing = before
			}
		})
	}
}

// failed notes a loss where err is one: the revision to continue after has expired.
func (s *stream) failed(err error) error {
	if expired(err) {
		s.set(func() { s.from, s.lost = "", err.Error() })
	}
	return err
}

// take records one event of a watch and moves the place to continue after.
func (s *stream) take(ctx context.Context, e watch.Event) error {
	at := history.Now()
	if e.Type == watch.Error {
		return fmt.Errorf("watch %s: %w", s.name, apierrors.FromObject(e.Object))
	}
	obj, err := meta.Accessor(e.Object)
	if err != nil {
		return fmt.Errorf("watch %s: %s event: %w", s.name, e.Type, err)
	}
	version := obj.GetResourceVersion()
	rev := revision(version)
	if rev == 0 {
		return fmt.Errorf("watch %s: %s event of %q: resourceVersion: want a number above 0, got %q", s.name, e.Type, key(obj), version)
	}
	mark := e.Type == watch.Bookmark
	if !mark {
		if err := s.record(ctx, change{e.Type, obj, rev}, at); err != nil {
			return err
		}
	}
	s.set(func() {
		if s.from != "" { // else Sync has asked for a list meanwhile
			s.from = version
		}
		s.progress, s.failing = max(s.progress, rev), nil
		s.marks = s.marks || mark
	})
	return nil
}
