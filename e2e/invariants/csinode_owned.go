package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var csiNodeOwned = Invariant{
	Name: "csinode-owned",
	Claim: "a CSINode has one ownerReference to a Node, with the UID that the Node of its name has when it is created; " +
		"one whose Node is gone, or has another UID, is gone within 60 s",
	Source:   "pkg/volume/csi/nodeinfomanager/nodeinfomanager.go CreateCSINode, ensureNodeOwnsCSINode; garbage collection",
	Boundary: history.Kubelet,
	Others:   []history.Boundary{history.ControllerManager},
	Needs:    []string{history.PrefixAPI + "csinodes", history.PrefixAPI + "nodes"},
	KnownUpstream: []Known{{
		Versions: ">=1.35 <=1.37", Scenario: "csinode-stale-owner", Signed: true,
		Source: "pkg/volume/csi/nodeinfomanager/nodeinfomanager.go: the Node's UID is read at the kubelet's start and never again",
	}},
	New: func(p Params) Checker {
		return newChecker(p, &owned{t: tally{}, late: tally{}, of: map[string]*ownership{}, blame: map[string]history.Boundary{}})
	},
}

// collectedWithin is how long the garbage collector may take.
const collectedWithin = 60 * time.Second

// nodeLife is one Node object: which revisions it was there for.
type nodeLife struct {
	uid      string
	from, to int64 // to is 0 while it is there
}

// ownership is the present state of one CSINode and of the Node of its name.
type ownership struct {
	lives  []nodeLife // the last few
	exists bool
	owner  string
	ref    history.Ref
	// created is a creation that waits for its Node's event, which comes from another watch.
	created *creation
	// wrong is since when the owner is not the Node that is there.
	wrong    time.Duration
	isWrong  bool
	wrongRef history.Ref
}

type creation struct {
	at    time.Duration
	rev   int64
	owner string
	ref   history.Ref
	scope string
}

// overdue is a CSINode that stayed too long.
type overdue struct {
	name     string
	from, to time.Duration
	f        finding
}

type owned struct {
	t     tally
	of    map[string]*ownership
	open  []string // names with a creation that waits
	over  backlog[overdue]
	late  tally // what stayed too long
	blame map[string]history.Boundary
}

func (r *owned) observe(m *model.Model, s *model.Step) {
	r.creations(m, s.At)
	switch b := s.Body.(type) {
	case *history.Node:
		r.node(s, b)
		r.look(m, s.Key, s.At, s.Ref())
	case *history.CSINode:
		r.csiNode(m, s, b)
		r.look(m, s.Key, s.At, s.Ref())
	}
}

func (r *owned) get(name string) *ownership {
	o := r.of[name]
	if o == nil {
		o = &ownership{}
		r.of[name] = o
	}
	return o
}

func (r *owned) node(s *model.Step, b *history.Node) {
	o := r.get(s.Key)
	last := len(o.lives) - 1
	switch {
	case b.Type == "DELETED" && last >= 0 && o.lives[last].uid == b.UID:
		o.lives[last].to = s.Rev
		if s.Rev == 0 {
			o.lives[last].to = o.lives[last].from
		}
	case b.Type != "DELETED" && b.UID != "" && (last < 0 || o.lives[last].uid != b.UID):
		o.lives = append(o.lives[max(0, len(o.lives)-3):], nodeLife{uid: b.UID, from: s.Rev})
	}
}

func (r *owned) csiNode(m *model.Model, s *model.Step, b *history.CSINode) {
	o := r.get(s.Key)
	fresh := !o.exists
	o.exists, o.ref = b.Type != "DELETED", s.Ref()
	if !o.exists || b.Owners == nil {
		o.exists = false // of one without a record of its owners nothing is known
		return
	}
	var nodes []history.Owner
	for _, owner := range b.Owners {
		if owner.Kind == "Node" {
			nodes = append(nodes, owner)
		}
	}
	if len(nodes) == 0 && len(o.lives) == 0 {
		o.exists = false // no kubelet made it: there was no Node
		return
	}
	if len(nodes) != 1 || nodes[0].Name != s.Key || nodes[0].UID == "" {
		r.t.violated(s.Key, finding{
			at: s.At, scope: s.Scope, evidence: []history.Ref{s.Ref()},
			detail: fmt.Sprintf("want one ownerReference of CSINode %q to its Node, got %+v at %s", s.Key, nodes, m.Since(s.At)),
		})
		o.exists = false
		return
	}
	o.owner = nodes[0].UID
	if fresh {
		o.created = &creation{at: s.At, rev: s.Rev, owner: o.owner, ref: s.Ref(), scope: s.Scope}
		r.open = append(r.open, s.Key)
	}
}

// creations judges those whose Nodes must have been seen by now.
func (r *owned) creations(m *model.Model, now time.Duration) {
	for len(r.open) > 0 {
		o := r.of[r.open[0]]
		if o.created != nil {
			if o.created.at+m.Slack() >= now {
				return
			}
			r.creation(m, r.open[0], o)
		}
		r.open = r.open[1:]
	}
}

func (r *owned) creation(m *model.Model, name string, o *ownership) {
	c := o.created
	o.created = nil
	for _, l := range o.lives {
		switch {
		case c.rev < l.from || l.to > 0 && c.rev >= l.to:
		case l.uid == c.owner:
			r.t.held(name, c.scope)
		default:
			r.t.missing(name, finding{
				at: c.at, scope: c.scope, evidence: []history.Ref{c.ref}, defect: "csinode-stale-owner",
				detail: fmt.Sprintf("want CSINode %q created with its Node's UID %q as owner, got %q at %s", name, l.uid, c.owner, m.Since(c.at)),
			}, history.PrefixAPI+"nodes")
		}
	}
}

// look follows since when the CSINode is not the present Node's.
func (r *owned) look(m *model.Model, name string, at time.Duration, ref history.Ref) {
	o := r.of[name]
	last := len(o.lives) - 1
	wrong := o.exists && last >= 0 && (o.lives[last].to > 0 || o.lives[last].uid != o.owner)
	switch {
	case wrong && !o.isWrong:
		o.wrong, o.wrongRef = at, ref
	case !wrong && o.isWrong:
		r.judge(m, name, o, at)
	}
	o.isWrong = wrong
}

// judge looks at a stretch that a CSINode outlived its Node for.
func (r *owned) judge(m *model.Model, name string, o *ownership, until time.Duration) {
	if until <= o.wrong+collectedWithin+m.Slack() {
		return
	}
	r.over.push(overdue{name, o.wrong, until, finding{
		at: o.wrong + collectedWithin, evidence: []history.Ref{o.wrongRef, o.ref},
		detail: fmt.Sprintf("want CSINode %q gone within %s of its Node, which was gone or replaced at %s, got it there until %s",
			name, collectedWithin+m.Slack(), m.Since(o.wrong), m.Since(until)),
	}})
}

func (r *owned) settle(m *model.Model, to time.Duration) time.Duration {
	if to == model.Forever {
		r.creations(m, m.End())
		for name, o := range r.of {
			if o.isWrong {
				r.judge(m, name, o, m.End())
			}
		}
	}
	for _, l := range r.over.due(func(l overdue) bool { return l.to <= to }) {
		if !m.Down("kube-controller-manager", l.from, l.to) && !m.Down("kube-apiserver", l.from, l.to) && !m.Down("etcd", l.from, l.to) {
			r.late.late(m, l.name, l.from, l.to, l.f, history.PrefixAPI+"csinodes", history.PrefixAPI+"nodes")
		}
	}
	return model.Forever
}

func (r *owned) finish(m *model.Model) []Verdict {
	for name, s := range r.late {
		if violations, _ := r.t.of(name).settled(m); violations.n == 0 {
			r.blame[name] = history.ControllerManager
		}
		r.t.join(name, s)
	}
	all := r.t.verdicts(m, history.Kubelet)
	for i := range all {
		if b := r.blame[all[i].Subject]; b != "" && all[i].Status != Held {
			all[i].Boundary = b
		}
	}
	return all
}
