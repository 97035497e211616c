package coverage

import (
	"iter"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// Fold reads the coverage of one run from its history. An error is the history's own.
func Fold(run string, events iter.Seq2[history.Event, error]) (Coverage, error) {
	f := fold{Coverage: Coverage{Runs: []string{run}}, open: map[string]*injection{}, quotas: map[string]history.Quota{}, pods: map[string]pod{}, calls: map[string]call{}}
	for e, err := range events {
		if err != nil {
			return Coverage{}, err
		}
		if err := f.observe(e); err != nil {
			return Coverage{}, err
		}
	}
	return f.Coverage, nil
}

// injection is a fault that is there.
type injection struct {
	row   struct{ fault, target string }
	nodes map[string]bool // none: all
	met   map[State]bool
}

// pod is what is known of one.
type pod struct {
	node              string
	starting, pending bool
}

// call is one in flight.
type call struct {
	state State
	node  string
}

// fold is the state of the cluster as far as coverage asks for it.
type fold struct {
	Coverage
	open   map[string]*injection
	quotas map[string]history.Quota
	pods   map[string]pod
	calls  map[string]call
}

func (f *fold) observe(e history.Event) error {
	if e.Key == history.KeyOpen || e.Key == history.KeyClose || e.Phase == history.Gap {
		return nil
	}
	switch {
	case e.Source == history.SourceFault:
		return f.fault(e)
	case e.Source == history.SourceBackend:
		var b history.Backend
		if err := e.Decode(&b); err != nil {
			return err
		}
		if b.Quota != nil && e.Key != "get" { // what a query answers may be a lie
			f.quotas[e.Node] = *b.Quota
			f.look(e.Node)
		}
	case e.Source == history.PrefixAPI+"pods":
		return f.pod(e)
	case strings.HasPrefix(e.Source, history.PrefixCSI):
		return f.call(e)
	}
	return nil
}

// fault begins and ends injections. One counts from its injection on; what was asked for and failed does not.
func (f *fold) fault(e history.Event) error {
	var b history.Fault
	if err := e.Decode(&b); err != nil {
		return err
	}
	switch b.State {
	case "inject":
		i := &injection{nodes: map[string]bool{}, met: map[State]bool{}}
		i.row.fault, i.row.target = e.Key, b.Target
		for _, n := range b.Nodes {
			i.nodes[n] = true
		}
		if len(f.open) > 0 {
			i.met[Beside] = true
		}
		for _, o := range f.open {
			o.met[Beside] = true
		}
		f.open[e.Op] = i
		for n := range f.quotas {
			f.look(n)
		}
		for _, p := range f.pods {
			f.lookAt(p)
		}
		for _, c := range f.calls {
			f.meet(c.node, c.state)
		}
	case "healed":
		if i := f.open[e.Op]; i != nil {
			delete(f.open, e.Op)
			f.count(i)
		}
	case "failed":
		delete(f.open, e.Op)
	}
	return nil
}

// count adds an injection that is over.
func (f *fold) count(i *injection) {
	class, _, _ := strings.Cut(i.row.target, "@")
	class, _, _ = strings.Cut(class, "/")
	r := f.row(i.row.fault, scenario.Class(class))
	r.Times++
	for s := range i.met {
		r.Met[s]++
	}
}

// meet notes a state of a node for the faults that act on it; "" is every node.
func (f *fold) meet(node string, s State) {
	for _, i := range f.open {
		if node == "" || len(i.nodes) == 0 || i.nodes[node] {
			i.met[s] = true
		}
	}
}

// look notes what the quota of a node says.
func (f *fold) look(node string) {
	q := f.quotas[node]
	if q.Attached > 0 {
		f.meet(node, Attached)
	}
	if q.Attached > 0 && q.Attached >= q.Usable() {
		f.meet(node, Full)
	}
	if q.Attached > q.Usable() {
		f.meet(node, Over)
	}
}

func (f *fold) pod(e history.Event) error {
	var b history.Pod
	if err := e.Decode(&b); err != nil {
		return err
	}
	if b.Type == "DELETED" || len(b.Claims) == 0 {
		delete(f.pods, e.Key)
		return nil
	}
	waits := b.PodPhase == "Pending" || b.PodPhase == ""
	p := pod{node: b.NodeName, starting: waits && b.NodeName != "", pending: waits && b.NodeName == "" && strings.Contains(b.Unschedulable, "max volume count")}
	f.pods[e.Key] = p
	f.lookAt(p)
	return nil
}

func (f *fold) lookAt(p pod) {
	if p.starting {
		f.meet(p.node, Starting)
	}
	if p.pending {
		f.meet("", Pending)
	}
}

// of maps the calls that are states.
var of = map[string]State{
	"NodeGetInfo": Asking, "GetInfo": Registering, "ControllerPublishVolume": Attaching, "ControllerUnpublishVolume": Detaching,
}

func (f *fold) call(e history.Event) error {
	state, known := of[e.Key]
	if !known {
		return nil
	}
	var b history.CSICall
	if err := e.Decode(&b); err != nil {
		return err
	}
	if b.Side == history.DriverSide {
		return nil
	}
	op := e.Source + " " + e.Op
	if e.Phase != history.Invoke {
		delete(f.calls, op)
		return nil
	}
	node := e.Node
	if node == "" {
		node = b.NodeID // of a controller's call
	}
	f.calls[op] = call{state, node}
	f.meet(node, state)
	return nil
}
