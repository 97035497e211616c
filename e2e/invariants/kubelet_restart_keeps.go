package invariants

import (
	"fmt"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var kubeletRestartKeeps = Invariant{
	Name: "kubelet-restart-keeps",
	Claim: "from the start of a kubelet after another until it asks a driver's registration socket, it leaves the driver's entry as it is; " +
		"once registered again, the driver is asked within one period + slack",
	Source:   "pkg/volume/csi/csi_plugin.go RegisterPlugin; csi_node_updater.go",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixComponent, history.PrefixCSI, history.SourceAudit, history.PrefixAPI + "csidrivers"},
	New: func(p Params) Checker {
		return newChecker(p, &restarts{t: tally{}, up: map[string]bool{}, of: map[model.ID]*restart{}})
	},
}

// restart is one driver's way through the restart of its node's kubelet.
type restart struct {
	started time.Duration // of the new kubelet
	ref     history.Ref
	touched bool
	// registered is when the driver was registered again; 0 before.
	registered time.Duration
}

type restarts struct {
	t  tally
	up map[string]bool // nodes whose kubelet has run before
	of map[model.ID]*restart
	swept
	deferred
}

func (r *restarts) observe(m *model.Model, s *model.Step) {
	if r.swept.due(s.At) {
		for id, x := range r.of {
			r.look(m, id, x, s.At)
		}
	}
	switch b := s.Body.(type) {
	case *history.Component:
		if node, ok := strings.CutPrefix(s.Key, "kubelet@"); ok {
			r.component(m, s, node, b.State)
		}
	case *history.CSICall:
		if x := r.of[s.Call.ID]; x != nil {
			r.look(m, s.Call.ID, x, s.At)
		}
		if x := r.of[s.Call.ID]; x != nil {
			r.call(m, s, b, x)
		}
	case *history.Audit:
		if s.Write == nil || !s.Write.ByNode() {
			return
		}
		for _, c := range s.Write.Changes() {
			if x := r.of[c.ID]; x != nil && x.registered == 0 && !m.Registering(c.ID, s.At) {
				r.touched(m, s, c, x)
			}
		}
	}
}

// component begins to follow the drivers whose entries a new kubelet finds.
func (r *restarts) component(m *model.Model, s *model.Step, node, state string) {
	if state != "started" {
		if state != "ready" && state != "resumed" {
			for id := range r.of {
				if id.Node == node {
					delete(r.of, id)
				}
			}
		}
		return
	}
	if !r.up[node] {
		r.up[node] = true
		return
	}
	for _, driver := range m.Entries(node) {
		if id := (model.ID{Node: node, Driver: driver}); m.Asks(id) > 0 {
			r.of[id] = &restart{started: s.At, ref: s.Ref()}
		}
	}
}

func (r *restarts) touched(m *model.Model, s *model.Step, c model.Change, x *restart) {
	x.touched = true
	got := "its entry removed"
	if c.After != nil {
		got = "count " + count(c.After.Count)
	}
	r.t.missing(c.ID.String(), finding{
		at: s.At, scope: s.Scope, evidence: []history.Ref{s.Ref(), x.ref},
		detail: fmt.Sprintf("want the entry of %q kept from the kubelet's start at %s until it registers the driver, got %s at %s",
			c.Driver, m.Since(x.started), got, m.Since(s.At)),
	}, calls(c.Node))
}

func (r *restarts) call(m *model.Model, s *model.Step, b *history.CSICall, x *restart) {
	c := s.Call
	switch {
	case c.Method == model.GetInfo && s.Phase == history.Invoke && x.registered == 0 && !x.touched:
		r.t.held(c.ID.String(), s.Scope)
	case c.Method == model.NotifyRegistered && b.Registered != nil && s.Phase == history.Invoke:
		if !*b.Registered {
			delete(r.of, c.ID) // a failed registration takes the entry away
			return
		}
		x.registered = s.At
	case c.Method == model.NodeGetInfo && c.Side == history.ClientSide && s.Phase == history.Invoke && x.registered > 0:
		r.t.held(c.ID.String(), s.Scope)
		delete(r.of, c.ID)
	}
}

// look notes the tick that did not come after the registration.
func (r *restarts) look(m *model.Model, id model.ID, x *restart, now time.Duration) {
	p, ok := m.Period(id.Driver).At(now)
	if x.registered == 0 || !ok {
		return
	}
	registered, _ := m.Registered(id).Back(0)
	if !registered.Value || p.Value == nil || p.At > x.registered || !m.Refreshes(id.Node, x.registered) {
		delete(r.of, id)
		return
	}
	deadline := model.Plus(model.Plus(x.registered, model.Seconds(*p.Value)), m.Slack())
	if now <= deadline {
		return
	}
	delete(r.of, id)
	r.deferred.late(id.Node, x.registered, x.registered, deadline, finding{
		at: deadline, evidence: []history.Ref{x.ref, p.Ref},
		detail: fmt.Sprintf("want NodeGetInfo within %s + %s after the registration at %s that followed the kubelet's restart, got none by %s",
			model.Seconds(*p.Value), m.Slack(), m.Since(x.registered), m.Since(deadline)),
	}, id.String(), calls(id.Node))
}

func (r *restarts) settle(m *model.Model, to time.Duration) time.Duration {
	if to == model.Forever {
		for id, x := range r.of {
			r.look(m, id, x, m.End())
		}
	}
	r.conclude(m, r.t, to)
	return model.Forever
}

func (r *restarts) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Kubelet) }
