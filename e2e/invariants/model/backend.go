package model

import (
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

// Place names a volume on a node.
type Place struct{ Node, Volume string }

// Attach is one attach request to the backend, from its arrival to its answer.
type Attach struct {
	Place
	Invoked time.Duration
	// Done is when it was answered; Forever when it never was.
	Done time.Duration
	// Orphan says that the arrival is not in the history: Invoked is then the time of the answer.
	Orphan bool
	// Answer is the body of the answer, nil when there was none.
	Answer *history.Backend
	// Held says whether the volume was attached there already, as far as the history tells.
	Held bool
	Ref  history.Ref
}

// Told says whether the backend's decision reached whoever asked for it.
func (a *Attach) Told() bool { return a.Answer != nil && a.Answer.Fault != history.NoAnswer }

// backend is the quota backend's truth over time.
type backend struct {
	quotas   table[string, *history.Quota]   // nil: the node is not known any more
	faults   table[string, *history.Backend] // "" as a node means all nodes; Fault "" means none
	attached table[Place, bool]
	holding  map[string]int           // volume -> on how many nodes it is attached
	released map[string]time.Duration // volume -> when it was last detached
	attaches map[Place][]*Attach
	open     map[string]*Attach         // by Op
	answered map[string][]time.Duration // when a node's quota was told to somebody, in order
	first    map[string]time.Duration   // when it first was
	held     table[string, int64]       // volumes attached through the API
	queries
}

func newBackend() backend {
	return backend{
		quotas: table[string, *history.Quota]{}, faults: table[string, *history.Backend]{}, attached: table[Place, bool]{},
		holding: map[string]int{}, released: map[string]time.Duration{}, attaches: map[Place][]*Attach{},
		open: map[string]*Attach{}, answered: map[string][]time.Duration{}, first: map[string]time.Duration{}, held: table[string, int64]{},
		queries: newQueries(),
	}
}

func (b *backend) foldBackend(e history.Event, body *history.Backend) *Attach {
	b.foldQuery(e, body)
	switch e.Key {
	case "quota":
		b.quotas.of(e.Node).set(e.At, body.Quota, e.Ref())
	case "fault":
		b.faults.of(e.Node).set(e.At, body, e.Ref())
	case "get":
		if e.Phase == history.OK && body.Quota != nil && body.Fault == "" {
			b.answered[e.Node] = append(b.answered[e.Node], e.At)
			if _, known := b.first[e.Node]; !known {
				b.first[e.Node] = e.At
			}
		}
	case "attach":
		return b.foldAttach(e, body)
	case "detach":
		if e.Phase == history.OK && body.Decision != history.Refused {
			b.attach(Place{e.Node, body.Volume}, e, false)
			b.foldHeld(e, body)
		}
	}
	return nil
}

func (b *backend) foldAttach(e history.Event, body *history.Backend) *Attach {
	if e.Phase == history.Invoke {
		a := &Attach{Place: Place{e.Node, body.Volume}, Invoked: e.At, Done: Forever, Ref: e.Ref()}
		b.attaches[a.Place] = append(b.attaches[a.Place], a)
		if e.Op != "" {
			b.open[e.Op] = a
		}
		return a
	}
	a := b.open[e.Op]
	delete(b.open, e.Op)
	if a == nil || a.Over() < e.At {
		a = &Attach{Place: Place{e.Node, body.Volume}, Invoked: e.At, Orphan: true}
		b.attaches[a.Place] = append(b.attaches[a.Place], a)
	}
	a.Done, a.Answer, a.Ref = e.At, body, e.Ref()
	line := b.attached.of(a.Place)
	if p, ok := line.Back(0); ok {
		a.Held = p.Value
	}
	if body.Reason == history.ReasonFull && a.Told() {
		b.refusals[e.Node] = append(b.refusals[e.Node], a)
	}
	if body.Decision == history.Accepted {
		b.attach(a.Place, e, true)
		b.foldHeld(e, body)
	}
	return a
}

// attach notes that a volume is on a node, or no more.
func (b *backend) attach(p Place, e history.Event, on bool) {
	line := b.attached.of(p)
	switch was, _ := line.Back(0); {
	case on && !was.Value:
		b.holding[p.Volume]++
	case !on && was.Value:
		b.released[p.Volume] = e.At
		if b.holding[p.Volume]--; b.holding[p.Volume] == 0 {
			delete(b.holding, p.Volume)
		}
	}
	line.set(e.At, on, e.Ref())
}

func (b *backend) foldHeld(e history.Event, body *history.Backend) {
	if body.Quota != nil {
		b.held.of(e.Node).set(e.At, body.Quota.Attached, e.Ref())
	}
}

// MostHeld returns the highest number of volumes that Kubernetes had attached to node at some time from the last answer to a quota query before at,
// or from the history's start, to to.
func (b *backend) MostHeld(node string, at, to time.Duration) int64 {
	var from time.Duration
	if i, _ := slices.BinarySearch(b.answered[node], at); i > 0 {
		from = b.answered[node][i-1]
	}
	var most int64
	for _, p := range b.held[node].Over(from, to) {
		most = max(most, p.Value)
	}
	return most
}

// Quota returns the truth about node over time; a nil value means that the backend did not know the node.
func (b *backend) Quota(node string) *Timeline[*history.Quota] { return b.quotas[node] }

// Usable returns the highest number of volumes that Kubernetes might use on node at some time from from to to, and the event that set it.
// It is false when no quota is known to have been in force.
func (b *backend) Usable(node string, from, to time.Duration) (int64, history.Ref, bool) {
	best, ref, ok := int64(0), history.Ref{}, false
	for _, p := range b.quotas[node].Over(from, to) {
		if p.Value != nil && (!ok || p.Value.Usable() > best) {
			best, ref, ok = p.Value.Usable(), p.Ref, true
		}
	}
	return best, ref, ok
}

// KnownSince is when the backend first answered a query for the quota of a node, given by the names that the backend may know it by; false when it
// never did.
func (b *backend) KnownSince(names ...string) (since time.Duration, known bool) {
	for _, n := range names {
		if at, ok := b.first[n]; ok && n != "" && (!known || at < since) {
			since, known = at, true
		}
	}
	return since, known
}

// Attached returns over time whether the backend holds volume on node. Attachments older than the history are not known.
func (b *backend) Attached(p Place) *Timeline[bool] { return b.attached[p] }

// BackendNode is the name by which the backend knew a node at t: its name or its CSI node id, whichever it used first. It is false when it knew neither.
func (b *backend) BackendNode(node, id string, t time.Duration) (name string, ok bool) {
	for _, n := range []string{node, id} {
		line := b.quotas[n]
		if n == "" || line == nil || line.began > t || ok && line.began >= b.quotas[name].began {
			continue
		}
		name, ok = n, true
	}
	return name, ok
}

// Attaches returns the attach requests for a place, by arrival.
func (b *backend) Attaches(p Place) []*Attach { return b.attaches[p] }

// Outage says whether node could not rely on the backend for an operation ("get", "attach") at some time from from to to: a fault mode was set for
// it, the backend itself was down, or a fault of the run lay on the way to it.
func (m *Model) Outage(node, operation string, from, to time.Duration) bool {
	for _, n := range []string{node, ""} {
		for _, p := range m.faults[n].Over(from, to) {
			if f := p.Value; f.Fault != "" && (len(f.Operations) == 0 || slices.Contains(f.Operations, operation)) {
				return true
			}
		}
	}
	return m.Down("backend", from, to) || m.Down("quota-backend", from, to) ||
		slices.ContainsFunc(m.runFaults, func(f *RunFault) bool { return f.From <= to && from <= f.To && f.on(node) && f.backend() })
}
