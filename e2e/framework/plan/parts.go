package plan

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/scenario"
)

// whole is the part of a fault beside which nothing can be done: no request is answered, so that no other fault could be healed.
const whole = "*"

func part(name string, node int) string { return fmt.Sprintf("%s/%d", name, node) }

// every is a part on all nodes.
func (p *planner) every(name string) (out []string) {
	for i := range p.nodes {
		out = append(out, part(name, i+1))
	}
	return out
}

// parts are what a fault needs for itself: two faults that share one never overlap. A node's kubelet, its driver, and the calls between them are one
// part, since the faults that take a registration away are healed by a registration, which needs them all. A node's limit is another, since each of its
// faults puts back what it found, and what the backend answers about it a third.
func (p *planner) parts(r row, t scenario.Target) []string {
	var out []string
	switch {
	case t.Class == scenario.APIServer || t.Class == scenario.Etcd:
		return []string{whole}
	case r.about != "" && t.Node == 0:
		out = p.every(r.about)
	case r.about != "":
		out = []string{part(r.about, t.Node)}
	case t.Node > 0:
		out = []string{part("node", t.Node)}
	default:
		out = []string{string(t.Class)}
	}
	for _, name := range r.also {
		out = append(out, part(name, t.Node))
	}
	for _, c := range r.needs {
		out = append(out, string(c))
	}
	return out
}

func (p *planner) exclusive(r row, t scenario.Target) bool {
	return slices.Contains(p.parts(r, t), whole)
}

// take notes that something is done to some parts.
func (p *planner) take(from, to time.Duration, parts ...string) {
	for _, part := range parts {
		p.busy = append(p.busy, span{part, from, to})
	}
}

// free says whether nothing is done to some parts over a time, nor shortly before it.
func (p *planner) free(from, to time.Duration, parts ...string) bool {
	return !slices.ContainsFunc(p.busy, func(b span) bool {
		if b.from > to || from >= b.to+apart {
			return false
		}
		// What marks a fault as such has no part, and the exclusive one must not meet it either.
		return b.part == whole || slices.Contains(parts, whole) || slices.Contains(parts, b.part)
	})
}

// targets are what a row's fault can act on here, in order.
func (p *planner) targets(r row) (out []scenario.Target) {
	for _, c := range r.classes {
		if !ofNode[c] {
			out = append(out, scenario.Target{Class: c})
			continue
		}
		for i := range p.nodes {
			out = append(out, scenario.Target{Class: c, Node: i + 1})
		}
	}
	return out
}

// ofNode are the classes of which every node has one.
var ofNode = map[scenario.Class]bool{scenario.OnNode: true, scenario.CSINode: true, scenario.Kubelet: true, scenario.NodeDriver: true}
