package report

import (
	"cmp"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

// scopes knows which bench a node or a driver belongs to. Only objects of the API carry their scope; what CSI calls, the backend and components did
// is known by its node. Where nodes are lent to one bench after the other, that is the one which has it then.
type scopes struct {
	nodes, drivers map[string]string
	lent           map[string]bool // nodes that several benches had
}

func newScopes() scopes {
	return scopes{nodes: map[string]string{}, drivers: map[string]string{}, lent: map[string]bool{}}
}

func (s scopes) observe(e history.Event) {
	switch {
	case e.Scope == "":
	case e.Source == history.PrefixAPI+"csidrivers":
		s.drivers[e.Key] = e.Scope
	case e.Node == "":
	case e.Source == history.PrefixAPI+"nodes":
		s.lent[e.Node] = s.lent[e.Node] || s.nodes[e.Node] != "" && s.nodes[e.Node] != e.Scope
		s.nodes[e.Node] = e.Scope
	default:
		s.nodes[e.Node] = cmp.Or(s.nodes[e.Node], e.Scope)
	}
}

// only is the scope of a node that one bench had, "" of any other.
func (s scopes) only(node string) string {
	if s.lent[node] {
		return ""
	}
	return s.nodes[node]
}

// of is the scope of an event, "" where nothing tells it.
func (s scopes) of(e history.Event) string { return cmp.Or(e.Scope, s.nodes[e.Node]) }

// verdict is the scope of a verdict that does not know its own: that of its subject ("node", "node/driver", "driver"), or the one that all its
// evidence has in common.
func (s scopes) verdict(v invariants.Verdict, evidence []Event) string {
	node, driver, _ := strings.Cut(v.Subject, "/")
	if scope := cmp.Or(v.Scope, s.drivers[driver], s.drivers[v.Subject], s.only(node)); scope != "" {
		return scope
	}
	common := ""
	for _, e := range evidence {
		scope := s.only(e.Node)
		if scope == "" || common != "" && scope != common {
			return ""
		}
		common = scope
	}
	return common
}
