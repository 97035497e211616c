package model

import "headroom/e2e/framework/history"

// internAtMost bounds the table: names beyond it are kept once each time that they are kept at all.
const internAtMost = 1 << 15

// names keeps one copy of each string that is in many events and outlives them: of a million events all name the same hundred nodes.
type names map[string]string

func (n names) one(s *string) {
	if len(*s) == 0 {
		return
	}
	kept, ok := n[*s]
	switch {
	case ok:
		*s = kept
	case len(n) < internAtMost:
		n[*s] = *s
	}
}

func (n names) event(e *history.Event) {
	n.one(&e.Source)
	n.one(&e.Node)
	n.one(&e.Scope)
	// The keys of calls are methods and the backend's are operations; those of other sources are names of objects, of which there are many.
	if sourceIs(e.Source, history.PrefixCSI) || e.Source == history.SourceBackend {
		n.one(&e.Key)
	}
}

func sourceIs(source, prefix string) bool {
	return len(source) > len(prefix) && source[:len(prefix)] == prefix
}

// body does the same for what checkers keep of a body.
func (n names) body(body any) {
	switch b := body.(type) {
	case *history.CSICall:
		n.one(&b.Driver)
		n.one(&b.NodeID)
		n.one(&b.Message)
	case *history.Backend:
		n.one(&b.Holder)
		n.one(&b.Reason)
		n.one(&b.Decision)
	case *history.Audit:
		n.one(&b.User)
		n.one(&b.Verb)
		n.one(&b.Resource)
		n.drivers(b.Drivers)
	case *history.CSINode:
		n.drivers(b.Drivers)
	case *history.Pod:
		n.one(&b.NodeName)
		n.one(&b.PodPhase)
		n.one(&b.Reason)
		n.one(&b.Scheduler)
	case *history.VolumeAttachment:
		n.one(&b.Attacher)
		n.one(&b.NodeName)
	case *history.PV:
		n.one(&b.Driver)
	}
}

func (n names) drivers(all []history.CSINodeDriver) {
	for i := range all {
		n.one(&all[i].Name)
		n.one(&all[i].NodeID)
		for j := range all[i].TopologyKeys {
			n.one(&all[i].TopologyKeys[j])
		}
	}
}
