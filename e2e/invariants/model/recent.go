package model

import (
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

// SocketRemoved is the key of the event by which a registrar says that its socket is gone: the kubelet deregisters the driver.
const SocketRemoved = "SocketRemoved"

const (
	// recentFor is how long an answer is remembered after it came; a kubelet writes it within seconds.
	recentFor = 2 * time.Minute
	// recentAtMost bounds what is remembered of one driver on one node.
	recentAtMost = 64
)

// Answer is one NodeGetInfo that a kubelet asked, with what it was told.
type Answer struct {
	*Call
	// Given is when the answer left the driver, as far as the driver's side tells: Done otherwise.
	Given time.Duration
	// Registering says that it was asked in the course of a registration.
	Registering bool
}

// Carries says whether a kubelet writes this count for the answer.
func (a *Answer) Carries(count *int32) bool { return a.OK() && SameCount(CountOf(a.Max), count) }

// Attempt is one registration of a driver that a kubelet began.
type Attempt struct {
	// Asked is when the kubelet asked for the driver's info; Told is when it told the outcome, Forever as long as it has not.
	Asked, Told time.Duration
	Registered  bool
	Ref         history.Ref
	asked       bool // NodeGetInfo was asked
}

// Open says whether the attempt was under way at t.
func (a *Attempt) Open(t time.Duration) bool { return a.Asked <= t && t <= a.Told }

// recent is what kubelets asked and were told of late.
type recent struct {
	answers  map[ID][]*Answer
	pending  map[callKey]*Answer // by source and Op, both sides
	attempts map[ID][]*Attempt
	asks     map[ID]int
	sockets  map[ID]time.Duration
}

func newRecent() recent {
	return recent{
		answers: map[ID][]*Answer{}, pending: map[callKey]*Answer{}, attempts: map[ID][]*Attempt{}, asks: map[ID]int{}, sockets: map[ID]time.Duration{},
	}
}

// foldKubelet follows what goes between a kubelet and a driver's sockets.
func (r *recent) foldKubelet(e history.Event, b *history.CSICall, c *Call) {
	switch {
	case e.Key == SocketRemoved:
		r.sockets[c.ID] = e.At
	case e.Key == GetInfo && e.Phase == history.Invoke:
		r.asks[c.ID]++
		r.attempts[c.ID] = keep(append(r.attempts[c.ID], &Attempt{Asked: e.At, Told: Forever, Ref: e.Ref()}), 8)
	case e.Key == NotifyRegistered && b.Registered != nil:
		if all := r.attempts[c.ID]; len(all) > 0 && all[len(all)-1].Told == Forever {
			last := all[len(all)-1]
			last.Told, last.Registered = e.At, *b.Registered
		}
	case e.Key == NodeGetInfo:
		r.foldInfo(e, b, c)
	}
}

func (r *recent) foldInfo(e history.Event, b *history.CSICall, c *Call) {
	key := callKey{source: e.Source, op: e.Op}
	switch {
	case b.Side == history.ClientSide && e.Phase == history.Invoke:
		a := &Answer{Call: c, Given: Forever}
		if all := r.attempts[c.ID]; len(all) > 0 && all[len(all)-1].Told == Forever && !all[len(all)-1].asked {
			a.Registering, all[len(all)-1].asked = true, true
		}
		r.pending[key] = a
		kept := slices.DeleteFunc(r.answers[c.ID], func(old *Answer) bool { return old.Done < Minus(e.At, recentFor) })
		r.answers[c.ID] = keep(append(kept, a), recentAtMost)
	case e.Phase == history.Invoke:
	case b.Side == history.DriverSide:
		if a := r.pending[key]; a != nil {
			a.Given = e.At
		}
	default:
		if a := r.pending[key]; a != nil {
			a.Given = min(a.Given, e.At)
		}
		delete(r.pending, key)
	}
}

// keep returns the last n of all.
func keep[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// Recent returns the NodeGetInfo calls of the last minutes by the time they were sent, those without an answer included.
func (r *recent) Recent(id ID) []*Answer { return r.answers[id] }

// AnswerOf returns the recent one that a step on the client's side belongs to; nil when it is none.
func (r *recent) AnswerOf(s *Step) *Answer {
	if s.Call == nil || s.Call.Method != NodeGetInfo || s.Call.Side != history.ClientSide {
		return nil
	}
	for _, a := range slices.Backward(r.answers[s.Call.ID]) {
		if a.Call == s.Call {
			return a
		}
	}
	return nil
}

// Attempts returns the last registrations that the kubelet began, oldest first. Without any, calls in a registration cannot be told from others.
func (r *recent) Attempts(id ID) []*Attempt { return r.attempts[id] }

// Asks is how many registrations the kubelet has begun so far.
func (r *recent) Asks(id ID) int { return r.asks[id] }

// Registering says whether a registration was under way at t.
func (r *recent) Registering(id ID, t time.Duration) bool {
	return slices.ContainsFunc(r.attempts[id], func(a *Attempt) bool { return a.Open(t) })
}

// SocketGone is when the driver's registration socket was last removed; false when it never was.
func (r *recent) SocketGone(id ID) (time.Duration, bool) {
	at, ok := r.sockets[id]
	return at, ok
}
