package model

import (
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

const (
	// settleLag is how much later than it happened an event may be in the history, beyond twice the slack: what is older is settled.
	settleLag = 10 * time.Second
	// callLife is how long a call or an attach may take to be answered. What takes longer is given up: its answer, if one comes, is an orphan's.
	callLife = 10 * time.Minute
	// PlaceFor is how long it is remembered that a volume was on a node.
	PlaceFor = 2 * time.Minute
	// TroubleFor is how long a publish or an attach is remembered that failed: the attacher tries again every 5 minutes at least.
	TroubleFor = 10 * time.Minute
	// revisionsFor is how long a state of a CSINode that was replaced is remembered.
	revisionsFor = 2 * time.Minute
	// pairAtLeast and pairAtMost bound PairWithin.
	pairAtLeast, pairAtMost = 2 * time.Minute, 2 * time.Hour
	// gapsAtMost bounds the gaps kept of one source: one is enough to lower a verdict.
	gapsAtMost = 100
)

// Settled is the time up to which nothing more will become known: all events of it have come, with what heartbeats and probes tell of it. A process
// whose heartbeats lag may have stood still, so nothing is settled beyond its last one, until the other processes have gone on for long without it.
func (m *Model) Settled() time.Duration {
	mark := Minus(m.last, Plus(settleLag, Plus(m.Slack(), m.Slack())))
	for _, b := range m.beats {
		if !m.silent(b) {
			mark = min(mark, b.at)
		}
	}
	for _, at := range m.probing {
		if at >= Minus(m.last, probeLife) {
			mark = min(mark, at)
		}
	}
	m.settled = max(m.settled, mark)
	return m.settled
}

// Forget drops what is older than cut and as much before it as a question about a later time may look back. What was in force then, what is still
// open, and what counts for the whole run is kept: faults, states of components, periods and registrations among it, of which a run has few.
func (m *Model) Forget(cut time.Duration) {
	for _, c := range m.calls.open {
		if c.Over() >= cut && c.matters() {
			cut = min(cut, c.Invoked)
		}
	}
	for _, a := range m.backend.open {
		if a.Over() >= cut {
			cut = min(cut, a.Invoked)
		}
	}
	recently := Minus(cut, callLife)
	for _, asked := range m.asked {
		if asked >= recently {
			cut = min(cut, asked)
		}
	}
	m.backend.forgetPlaces(cut)
	m.calls.forget(cut, m.holds)
	m.backend.forgetFigures(Minus(cut, Plus(m.PairWithin(Forever), m.memory())))
	m.backend.forgetTold(Minus(cut, m.memory()))
	m.nodes.forget(Minus(cut, revisionsFor))
	m.recent.forget(cut)
	for op, at := range m.probing {
		if at < Minus(m.last, probeLife) {
			delete(m.probing, op)
		}
	}
}

// PairWithin is how far apart, from the one's beginning to the other's end, two answers of a driver may be to be held against each other, as of the
// time of the first: a period and a minute, for the ticks of a kubelet come a period apart.
func (m *Model) PairWithin(t time.Duration) time.Duration {
	longest, _ := m.longest.At(t)
	return min(pairAtMost, max(pairAtLeast, Plus(longest.Value, time.Minute)))
}

// memory is how long before an answer that is not settled yet it matters what the driver was told: as long as it may remember it, or wait for two steps.
func (m *Model) memory() time.Duration {
	d := m.header.Params.Driver
	back := Plus(max(time.Duration(d.CacheAge), time.Duration(d.LastGoodLife)), m.Slack())
	return Plus(back, Plus(2*min(time.Duration(d.StepInterval), pairAtMost), time.Second))
}

// follow remembers the longest period that any driver has had.
func (o *objects) follow(at time.Duration, period *int64, ref history.Ref) {
	if period == nil {
		return
	}
	if last, ok := o.longest.Back(0); !ok || Seconds(*period) > last.Value {
		o.longest.set(at, Seconds(*period), ref)
	}
}

// matters says whether it matters what went on while the call was under way.
func (c *Call) matters() bool {
	return c.Method == NodeGetInfo || c.Method == Publish || c.Method == Unpublish
}

// Over is when the call was answered, or was given up.
func (c *Call) Over() time.Duration { return min(c.Done, Plus(c.Invoked, callLife)) }

// Over is when the attach was answered, or was given up.
func (a *Attach) Over() time.Duration { return min(a.Done, Plus(a.Invoked, callLife)) }

// forget drops calls that were over before cut. Publishes that failed stay for longer, and while the backend holds a volume the last publish and the
// last unpublish that succeeded do: they tell who is to blame for where it is.
func (c *calls) forget(cut time.Duration, holding func(volume string) bool) {
	old := func(call *Call) bool { return call.Over() < cut }
	for key, call := range c.open {
		if old(call) {
			delete(c.open, key)
		}
	}
	for id, all := range c.infos {
		for _, call := range all {
			if old(call) {
				c.slowest[id] = max(c.slowest[id], call.Over()-call.Invoked)
			}
		}
		c.infos[id] = slices.DeleteFunc(all, old)
	}
	for id, all := range c.served {
		c.served[id] = slices.DeleteFunc(all, old)
	}
	for volume, all := range c.publish {
		last := all[len(all)-1]
		keepIf(c.publish, volume, func(call *Call) bool {
			return !old(call) || !call.OK() && call.Over() >= Minus(cut, TroubleFor) || call == last && holding(volume)
		})
	}
	for volume, all := range c.unpublish {
		var last *Call
		for _, call := range all {
			if call.OK() {
				last = call
			}
		}
		keepIf(c.unpublish, volume, func(call *Call) bool { return !old(call) || call == last && holding(volume) })
	}
	for key, at := range c.told {
		if at < Minus(cut, callLife) {
			delete(c.told, key)
		}
	}
}

// keepIf keeps what is worth it in a list of m, and the list where something is.
func keepIf[K comparable, T any](m map[K][]T, k K, worth func(T) bool) {
	if m[k] = slices.DeleteFunc(m[k], func(v T) bool { return !worth(v) }); len(m[k]) == 0 {
		delete(m, k)
	}
}

// holds says whether the backend holds the volume on some node, or let go of it after what is forgotten.
func (b *backend) holds(volume string) bool {
	_, released := b.released[volume]
	return released || b.holding[volume] > 0
}

// forgetPlaces drops attaches that were over before cut, those that did not succeed later, and places where nothing has been for a while.
func (b *backend) forgetPlaces(cut time.Duration) {
	for op, a := range b.open {
		if a.Over() < cut {
			delete(b.open, op)
		}
	}
	for volume, at := range b.released {
		if at < cut {
			delete(b.released, volume)
		}
	}
	for p := range b.attaches {
		keepIf(b.attaches, p, func(a *Attach) bool {
			return a.Over() >= cut || !a.accepted() && a.Over() >= Minus(cut, TroubleFor)
		})
	}
	for p, line := range b.attached {
		line.forget(Minus(cut, PlaceFor))
		if last, _ := line.Back(0); !last.Value && last.At < Minus(cut, PlaceFor) && b.attaches[p] == nil {
			delete(b.attached, p)
		}
	}
}

func (a *Attach) accepted() bool { return a.Answer != nil && a.Answer.Decision == history.Accepted }

// forgetFigures drops quotas, counts and refusals from before the time before.
func (b *backend) forgetFigures(before time.Duration) {
	for _, line := range b.quotas {
		line.forget(before)
	}
	for _, line := range b.counts {
		line.forget(before)
	}
	for node, times := range b.answered {
		i, _ := slices.BinarySearch(times, before)
		b.answered[node] = slices.Delete(times, 0, max(0, i-1))
	}
	for node, line := range b.held {
		var since time.Duration
		if times := b.answered[node]; len(times) > 0 && times[0] < before {
			since = times[0]
		}
		forgetButMost(line, since, before)
	}
	for node, all := range b.refusals {
		b.refusals[node] = slices.DeleteFunc(all, func(a *Attach) bool { return a.Done < before })
	}
}

// forgetTold drops what drivers were told of quotas before the time before.
func (b *backend) forgetTold(before time.Duration) {
	for node, told := range b.told {
		b.told[node] = slices.DeleteFunc(told, func(t Told) bool { return t.At < before })
	}
}

// forgetButMost drops the points before the time before, but the one in force then and the highest of those in force since the time since.
func forgetButMost(l *Timeline[int64], since, before time.Duration) {
	past := l.Over(since, before)
	if len(past) == 0 {
		return
	}
	now := past[len(past)-1]
	most := slices.MaxFunc(past, func(a, b Point[int64]) int { return int(max(-1, min(1, a.Value-b.Value))) })
	l.forget(before)
	if most.Value > now.Value {
		l.points = slices.Insert(l.points, 0, most)
	}
}

// forget drops states that were replaced before the time before.
func (n *nodes) forget(before time.Duration) {
	for name, c := range n.csi {
		n.Revisions(name)
		i := 0
		for i+1 < len(c.ordered) && c.ordered[i+1].At <= before {
			delete(c.byRev, c.ordered[i].Rev)
			i++
		}
		c.ordered = slices.Delete(c.ordered, 0, i)
		c.removals = slices.DeleteFunc(c.removals, func(r Removal) bool { return r.At < before })
		c.unsure = slices.DeleteFunc(c.unsure, func(u Claim) bool { return u.At < before })
	}
}

// forget gives up what was asked too long ago.
func (r *recent) forget(cut time.Duration) {
	for key, a := range r.pending {
		if a.Over() < cut {
			delete(r.pending, key)
		}
	}
}
