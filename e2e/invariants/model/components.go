package model

import (
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// RunFault is one injection of the run, from when it was asked for to when it was healed.
type RunFault struct {
	Name, Target string
	Nodes        []string
	// From is when it was asked for, before it took effect. To is when it was healed; Forever while it was not.
	From, To time.Duration
	Ref      history.Ref
}

func (f *RunFault) on(node string) bool { return len(f.Nodes) == 0 || slices.Contains(f.Nodes, node) }

// kind is the target without its node or driver: "kubelet" of "kubelet@n1".
func (f *RunFault) kind() string {
	kind, _, _ := strings.Cut(f.Target, "@")
	return kind
}

// backend says whether the fault lies on the quota backend or the way to it.
func (f *RunFault) backend() bool {
	return strings.HasPrefix(f.kind(), "backend") || strings.HasPrefix(f.kind(), "quota") ||
		f.Target == "" && (strings.HasPrefix(f.Name, "backend") || strings.HasPrefix(f.Name, "quota"))
}

// spares says whether the fault certainly leaves the kubelet, its way to the driver's socket, and the API server alone.
func (f *RunFault) spares() bool {
	switch f.kind() {
	case "driver", "driver-controller", "csi-attacher", "kube-scheduler", "kube-controller-manager":
		return true
	}
	return f.backend()
}

// components are the parts of the cluster over time, and what the run did to them.
type components struct {
	states    table[string, string]
	kubelets  table[string, string] // node -> version
	servers   Timeline[string]      // kube-apiserver versions
	attachers table[string, string] // driver -> version of its external-attacher
	runFaults []*RunFault
	injected  map[string]*RunFault // by Op
	trouble   map[string]Spans     // node -> disturbances, cached by Disturbed
	asOf      int                  // how many changes the cache saw
	changes   int
}

func newComponents() components {
	return components{
		states: table[string, string]{}, kubelets: table[string, string]{}, attachers: table[string, string]{}, injected: map[string]*RunFault{}, trouble: map[string]Spans{},
	}
}

// stops says whether a state means that the component does not run. One that started runs, though it may not be ready yet.
func stops(state string) bool {
	return state == "stopping" || state == "stopped" || state == "exited" || state == "paused"
}

func (c *components) foldComponent(e history.Event, b *history.Component, calls *calls) {
	c.changes++
	c.states.of(e.Key).set(e.At, b.State, e.Ref())
	kind, node, _ := strings.Cut(e.Key, "@")
	if b.Version != "" && kind == "kubelet" {
		c.kubelets.of(node).set(e.At, b.Version, e.Ref())
	}
	if b.Version != "" && kind == "kube-apiserver" {
		c.servers.set(e.At, b.Version, e.Ref())
	}
	if b.Version != "" && kind == "csi-attacher" {
		c.attachers.of(node).set(e.At, b.Version, e.Ref())
	}
	// A kubelet that went away takes its registrations with it; the next one registers anew. A paused one keeps them.
	if kind == "kubelet" && b.State != "paused" && b.State != "resumed" && b.State != "ready" {
		calls.unregister(node, e.At, e.Ref(), func(string) bool { return true })
	}
}

func (c *components) foldFault(e history.Event, b *history.Fault) {
	c.changes++
	switch b.State {
	case "inject":
		f := &RunFault{Name: e.Key, Target: b.Target, Nodes: b.Nodes, From: e.At, To: Forever, Ref: e.Ref()}
		c.runFaults = append(c.runFaults, f)
		c.injected[e.Op] = f
	case "healed", "failed":
		if f := c.injected[e.Op]; f != nil && f.To == Forever {
			f.To = e.At
		}
	}
}

// Down says whether component id was stopped, stopping or paused at some time from from to to. A component without events was never down.
func (c *components) Down(id string, from, to time.Duration) bool {
	return slices.ContainsFunc(c.states[id].Over(from, to), func(p Point[string]) bool { return stops(p.Value) })
}

// Disturbed says whether, at some time from from to to, something kept the kubelet of node from its work that is not the kubelet's own doing: it or
// the API server or etcd was down or paused, a fault of the run lay on them, or the Node was gone. Ask once to is settled.
func (m *Model) Disturbed(node string, from, to time.Duration) bool {
	return m.Disturbances(node).Overlaps(from, to)
}

// Disturbances returns the times of Disturbed.
func (m *Model) Disturbances(node string) Spans {
	if m.asOf != m.changes {
		m.trouble, m.asOf = map[string]Spans{}, m.changes
	}
	if s, ok := m.trouble[node]; ok {
		return s
	}
	var all []Span
	for id, line := range m.states {
		kind, where, _ := strings.Cut(id, "@")
		switch {
		case kind == "kube-apiserver" || kind == "etcd":
		case where == node && (kind == "kubelet" || kind == "node" || kind == "node-agent"):
		default:
			continue
		}
		all = append(all, spansOf(line, stops)...)
	}
	all = append(all, spansOf(m.gone[node], func(gone bool) bool { return gone })...)
	for _, f := range m.runFaults {
		if f.on(node) && !f.spares() {
			all = append(all, Span{f.From, f.To})
		}
	}
	m.trouble[node] = merged(all)
	return m.trouble[node]
}

// spansOf returns the times during which is was true.
func spansOf[T any](l *Timeline[T], is func(T) bool) []Span {
	var out []Span
	open := false
	for _, p := range l.Points() {
		switch now := is(p.Value); {
		case now && !open:
			out, open = append(out, Span{p.At, Forever}), true
		case !now && open:
			out[len(out)-1].To, open = p.At, false
		}
	}
	return out
}
