package model

import (
	"math"
	"slices"
	"sort"
	"time"

	"headroom/e2e/framework/history"
)

// Forever is later than every event of any run. Sums of times stop there instead of overflowing.
const Forever = time.Duration(math.MaxInt64)

// Plus adds two times and stops at Forever and its negative: periods come from API objects and may be absurd.
func Plus(a, b time.Duration) time.Duration {
	s := a + b
	switch {
	case a > 0 && b > 0 && s < 0:
		return Forever
	case a < 0 && b < 0 && s >= 0:
		return -Forever
	}
	return s
}

// Minus is Plus of -b.
func Minus(a, b time.Duration) time.Duration { return Plus(a, -b) }

// Seconds turns a number of seconds of an API object into a time, stopping at Forever.
func Seconds(n int64) time.Duration {
	if n > int64(Forever/time.Second) {
		return Forever
	}
	if n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// Point is a value that holds from At on.
type Point[T any] struct {
	At    time.Duration
	Value T
	Ref   history.Ref
}

// Timeline is a value over time. A nil Timeline is one that was never set.
type Timeline[T any] struct {
	points []Point[T]
	began  time.Duration // the time of the first point ever
}

// set appends a point. Events come in order, so a time that goes back (a damaged history) is raised to the last one.
func (l *Timeline[T]) set(at time.Duration, v T, ref history.Ref) {
	if n := len(l.points); n > 0 {
		at = max(at, l.points[n-1].At)
	} else {
		l.began = at
	}
	l.points = append(l.points, Point[T]{At: at, Value: v, Ref: ref})
}

// Points returns all points that are kept, oldest first. The caller must not change them.
func (l *Timeline[T]) Points() []Point[T] {
	if l == nil {
		return nil
	}
	return l.points
}

// Back returns the point that is n before the newest, 0 being the newest.
func (l *Timeline[T]) Back(n int) (Point[T], bool) {
	if l == nil || n < 0 || n >= len(l.points) {
		return Point[T]{}, false
	}
	return l.points[len(l.points)-1-n], true
}

// At returns the point in force at t; false before the first.
func (l *Timeline[T]) At(t time.Duration) (Point[T], bool) {
	p := l.Points()
	i := sort.Search(len(p), func(i int) bool { return p[i].At > t })
	if i == 0 {
		return Point[T]{}, false
	}
	return p[i-1], true
}

// Over returns the points in force at any time from from to to, both included.
func (l *Timeline[T]) Over(from, to time.Duration) []Point[T] {
	p := l.Points()
	first := sort.Search(len(p), func(i int) bool { return p[i].At > from })
	end := sort.Search(len(p), func(i int) bool { return p[i].At > to })
	// What was in force at from began before it, unless a point lies exactly there.
	return p[max(0, first-1):max(end, max(0, first-1))]
}

// forget drops the points before the time before, but the one in force then.
func (l *Timeline[T]) forget(before time.Duration) {
	i := sort.Search(len(l.points), func(i int) bool { return l.points[i].At > before })
	l.points = slices.Delete(l.points, 0, max(0, i-1))
}

// Span is a stretch of time, both ends included. An open span ends at Forever.
type Span struct{ From, To time.Duration }

// Spans are stretches of time in the order of their starts, none overlapping.
type Spans []Span

// merged sorts spans and joins those that touch.
func merged(in []Span) Spans {
	sort.Slice(in, func(i, j int) bool { return in[i].From < in[j].From })
	var out Spans
	for _, s := range in {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Overlaps says whether any span has a moment in common with from..to.
func (s Spans) Overlaps(from, to time.Duration) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].To >= from })
	return i < len(s) && s[i].From <= to
}

// table is a map of timelines that makes them when first set.
type table[K comparable, T any] map[K]*Timeline[T]

func (t table[K, T]) of(k K) *Timeline[T] {
	l := t[k]
	if l == nil {
		l = &Timeline[T]{}
		t[k] = l
	}
	return l
}
