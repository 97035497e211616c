// Package plan makes schedules of faults from a seed.
//
// Contract: a plan is a scenario, so that whatever plays scenarios plays it. The same Options give the same scenario on any machine: the generator is
// the standard library's PCG, whose sequence is specified, drawn from by integer arithmetic alone, and nothing is ordered by a map or a clock. Faults
// overlap only where both can happen and both can be healed; each is healed, and what follows the last heal is long enough for
// recovers-after-heal to be judged. What the faults may be, how often and for how long is one table, in table.go.
//
// It starts nothing and knows no cluster: whether a fault is possible on one, the fault itself says when it is played.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// Version is that of the algorithm and its table: with another one the same seed may give another plan.
const Version = 2

const (
	// period is the shortest that the API accepts, so that a plan sees as many ticks as it can.
	period = 10 * time.Second
	// warm is the time from the first step to the first fault: the pods that run from the beginning are up by then.
	warm = 12 * time.Second
	// longest bounds every fault. A kubelet that is away for 50 s makes its node NotReady, and the pods that it evicts would be the plan's doing.
	longest = 40 * time.Second
	// quiet is what follows the last heal: recovers-after-heal allows a count 2 periods + 60 s + slack (2 s) and 10 s for each step of 2 volumes, of which
	// there are at most 4, and a pod 2 periods + 60 s + slack and the length of the fault. What drops last is the later one.
	quiet = 2*period + 60*time.Second + 2*time.Second + longest
	// shortest is what a plan needs for its faults to be worth the cluster.
	shortest = 30 * time.Second
	// apart is the least time between the end of a fault and the next on the same part.
	apart = 5 * time.Second
	// together is how many faults may be active at once.
	together = 3
	// detaching is how long a deletion of pods may need the nodes that they are on.
	detaching = 10 * time.Second
	// limit is what a plan may take beyond its duration: making the nodes, and steps that last.
	limit = 5 * time.Minute
)

// Bounds of Options.Duration; Shortest is that of a plan whose Quiet is left out.
const (
	Shortest = warm + shortest + quiet
	Longest  = 20 * time.Minute
)

const (
	// fewest and most are the bounds of Options.Nodes, and fewest is what is made where it is left out.
	fewest, most = 2, 24
)

// Options say what a plan is made of.
type Options struct {
	// Seed is 1 or more.
	Seed int64
	// Duration is how long the plan plays, its quiet end included: Shortest to Longest, in whole seconds.
	Duration time.Duration
	// Nodes is how many there are: 2 to 24; 0 means 2.
	Nodes int
	// Quiet is the length of the quiet end in whole seconds, where it is to be longer than what recovers-after-heal allows; 0 means as long as that.
	Quiet time.Duration
	// Faults are names of faults and of groups, see Groups; empty means all. A fault with one value of its main parameter is quota-outage:throttle.
	Faults []string
	// Driver is the driver under test; "" is the reference driver.
	Driver string
	// Met is what plans have met so far; faults that it has least of are preferred. nil prefers none.
	Met *Met
}

// Met is how often faults were injected so far.
type Met struct {
	// Name says where that is known from; the plan's doc repeats it.
	Name string
	// Times is how often a fault was injected into a class of targets.
	Times func(fault string, class scenario.Class) int
}

// Error is a mistake in Options; its text names what there is.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// New makes the plan of a seed.
func New(o Options) (*scenario.Scenario, error) {
	rows, err := choose(o.Faults)
	if err != nil {
		return nil, err
	}
	calm := o.quiet()
	switch {
	case o.Seed < 1:
		return nil, &Error{fmt.Errorf("seed %d: want 1 or more", o.Seed)}
	case o.Nodes != 0 && (o.Nodes < fewest || o.Nodes > most):
		return nil, &Error{fmt.Errorf("%d nodes: want %d to %d", o.Nodes, fewest, most)}
	case calm < quiet || calm%time.Second != 0:
		return nil, &Error{fmt.Errorf("a quiet end of %s: want whole seconds, and %s or more", o.Quiet, quiet)}
	case o.Duration < o.Shortest() || o.Duration > Longest || o.Duration%time.Second != 0:
		return nil, &Error{fmt.Errorf("duration %s: want whole seconds from %s to %s, of which the last %s are quiet", o.Duration, o.Shortest(), Longest, calm)}
	}
	p := &planner{source: newSource(o.Seed), rows: rows, met: o.Met, end: o.Duration - calm, quiet: calm}
	p.layout(cmp.Or(o.Nodes, fewest))
	p.begin()
	p.faults()
	return p.scenario(o), nil
}

// quiet is how long the quiet end is.
func (o Options) quiet() time.Duration { return cmp.Or(o.Quiet, quiet) }

// Shortest is the least Duration for the Quiet that is asked for.
func (o Options) Shortest() time.Duration { return warm + shortest + o.quiet() }

// choose returns the rows of the table that some names stand for.
func choose(names []string) ([]row, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(table), func(r row) bool { return r.asked }), nil
	}
	for _, n := range names {
		if !slices.ContainsFunc(table, func(r row) bool { return r.is(n) }) {
			return nil, &Error{unknown(n)}
		}
	}
	var rows []row
	for _, r := range table {
		if slices.ContainsFunc(names, r.is) {
			rows = append(rows, r.only(names))
		}
	}
	return rows, nil
}

// unknown says what there is in place of a name.
func unknown(name string) error {
	fault, value, alone := strings.Cut(name, ":")
	if i := slices.IndexFunc(table, func(r row) bool { return r.fault == fault && len(r.values) > 0 }); alone && i >= 0 {
		return fmt.Errorf("fault %q has no %s %q; there are: %s", fault, table[i].main, value, strings.Join(table[i].values, ", "))
	}
	return fmt.Errorf("no fault or group %q; groups: %s; faults: %s", name, strings.Join(Groups(), ", "), strings.Join(Faults(), ", "))
}

// Groups lists the groups of faults, in the table's order.
func Groups() []string { return distinct(func(r row) string { return r.group }) }

// Faults lists the faults that plans may have, in the table's order.
func Faults() []string { return distinct(func(r row) string { return r.fault }) }

func distinct(of func(row) string) (out []string) {
	for _, r := range table {
		if v := of(r); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// planner makes one plan.
type planner struct {
	source
	rows  []row
	met   *Met
	end   time.Duration // when all faults are healed
	quiet time.Duration // what follows
	nodes []scenario.Node
	steps []scenario.Step
	busy  []span
	pods  []group
	// fault counts the faults so far, sets the sets of pods.
	fault, sets int
	// outage says that the API server or etcd had its fault: a plan has one at most.
	outage bool
	used   []string
	// value is that of the main parameter of the fault that is made.
	value string
}

// span is a part that something is done to, from when to when.
type span struct {
	part     string
	from, to time.Duration
}

// group are pods that a plan may delete.
type group struct {
	name string
	node int // 0: any
}

// layout draws the nodes.
func (p *planner) layout(nodes int) {
	for range nodes {
		p.nodes = append(p.nodes, scenario.Node{Limit: int64(p.between(3, 6))})
	}
}

// begin waits for the counts and makes pods that leave some room on every node.
func (p *planner) begin() {
	for i, n := range p.nodes {
		to := node(i + 1)
		p.add(nil, scenario.Step{Wait: &scenario.Wait{
			Within: history.Duration(30 * time.Second), Count: &scenario.CountIs{Node: to, Is: scenario.Count{Number: int32(n.Limit)}},
		}})
	}
	for i, n := range p.nodes {
		to := node(i + 1)
		p.add(nil, scenario.Step{Pods: &scenario.Pods{Name: fmt.Sprintf("base-%d", i+1), Count: int(n.Limit) - p.between(1, 2), On: &to}})
	}
	for i := range p.nodes {
		p.add(nil, scenario.Step{Wait: &scenario.Wait{
			Within: history.Duration(60 * time.Second), Pods: &scenario.PodsAre{Name: fmt.Sprintf("base-%d", i+1), Are: scenario.Running},
		}})
	}
}

func node(i int) scenario.Target { return scenario.Target{Class: scenario.OnNode, Node: i} }

// add adds a step, at a time where one is given.
func (p *planner) add(at *time.Duration, s scenario.Step) {
	if at != nil {
		d := history.Duration(*at)
		s.At = &d
	}
	p.steps = append(p.steps, s)
}

// faults fills the time from warm to end.
func (p *planner) faults() {
	for at := warm; at < p.end; at += p.seconds(4, 9) {
		if p.sets == 0 || p.below(2) == 0 {
			p.workload(at)
		}
		p.inject(at)
	}
	slices.SortStableFunc(p.steps, func(a, b scenario.Step) int { return int(when(a) - when(b)) })
}

// when is the time of a step; those without one are the first.
func when(s scenario.Step) time.Duration {
	if s.At == nil {
		return 0
	}
	return time.Duration(*s.At)
}

// workload makes pods, or deletes some. A deletion waits for its pods to be gone, so that it must not meet a fault that keeps them.
func (p *planner) workload(at time.Duration) {
	if !p.free(at, at+detaching) {
		return // no request is answered meanwhile
	}
	if len(p.pods) >= 3 || len(p.pods) > 0 && p.below(3) == 0 {
		i := int(p.below(uint64(len(p.pods))))
		g := p.pods[i]
		parts := []string{part("node", g.node)}
		if g.node == 0 {
			parts = p.every("node")
		}
		if p.free(at, at+detaching, parts...) {
			p.pods = slices.Delete(p.pods, i, i+1)
			p.take(at, at+detaching, parts...)
			p.add(&at, scenario.Step{Delete: g.name})
		}
		return
	}
	p.sets++
	g := group{name: fmt.Sprintf("pods-%d", p.sets), node: int(p.below(uint64(len(p.nodes) + 1)))}
	s := scenario.Pods{Name: g.name, Count: p.between(1, 2)}
	if g.node > 0 {
		to := node(g.node)
		s.On = &to
	}
	p.pods = append(p.pods, g)
	p.add(&at, scenario.Step{Pods: &s})
}

// choice is a fault that can begin now.
type choice struct {
	row    row
	target scenario.Target
	weight int
}

// inject begins one of the faults that can, by weight.
func (p *planner) inject(at time.Duration) {
	active := 0
	for _, b := range p.busy {
		if b.part == "" && b.to > at {
			active++
		}
	}
	if active >= together {
		return
	}
	var can []choice
	total := 0
	for _, r := range p.rows {
		for _, t := range p.targets(r) {
			if at+r.least > p.end || !p.free(at, at+r.least, p.parts(r, t)...) || p.outage && p.exclusive(r, t) {
				continue
			}
			c := choice{row: r, target: t, weight: p.weight(r, t)}
			can, total = append(can, c), total+c.weight
		}
	}
	if total == 0 {
		return
	}
	n := int(p.below(uint64(total)))
	for _, c := range can {
		if n -= c.weight; n < 0 {
			p.begun(at, c)
			return
		}
	}
}

// weight is a row's weight, divided among its targets, and more where it was met less.
func (p *planner) weight(r row, t scenario.Target) int {
	w := max(1, r.weight*scale/len(p.targets(r)))
	if p.met == nil {
		return w
	}
	switch n := p.met.Times(r.fault, t.Class); {
	case n == 0:
		return 4 * w
	case n < 3:
		return 2 * w
	}
	return w
}

// begun adds the steps of a fault.
func (p *planner) begun(at time.Duration, c choice) {
	p.fault++
	id := fmt.Sprintf("%02d-%s", p.fault, c.row.fault)
	to := at
	if c.row.most > 0 {
		to += p.seconds(int(c.row.least/time.Second), int(min(c.row.most, p.end-at)/time.Second))
	}
	f := &scenario.Fault{ID: id, Name: c.row.fault, Target: c.target}
	if params := p.params(c); params != nil {
		f.Params = flow(params)
	}
	p.add(&at, scenario.Step{Fault: f})
	p.add(&to, scenario.Step{Heal: id}) // also of what is over already: the record then says so
	p.outage = p.outage || p.exclusive(c.row, c.target)
	p.take(at, max(to, at+c.row.least), p.parts(c.row, c.target)...)
	p.busy = append(p.busy, span{part: "", from: at, to: to})
	if !slices.Contains(p.used, c.row.fault) {
		p.used = append(p.used, c.row.fault)
	}
}

// params draws the parameters of a fault; nil where it has none.
func (p *planner) params(c choice) map[string]any {
	if c.row.main == "" && c.row.params == nil {
		return nil
	}
	params := map[string]any{}
	if c.row.main != "" {
		p.value = one(p.source, c.row.values...)
		params[c.row.main] = p.value
	}
	if c.row.params != nil {
		maps.Copy(params, c.row.params(p, c.target))
	}
	return params
}

// flow is a mapping on one line, its keys in order.
func flow(params map[string]any) (n yaml.Node) {
	if err := n.Encode(params); err != nil {
		panic(fmt.Sprintf("plan: parameters %v do not encode: %v", params, err)) // they are numbers and texts
	}
	n.Style = yaml.FlowStyle
	return n
}

// scenario is the plan as it is played.
func (p *planner) scenario(o Options) *scenario.Scenario {
	what := "all faults"
	if len(o.Faults) > 0 {
		what = strings.Join(o.Faults, ", ")
	}
	doc := fmt.Sprintf("Plan %d of seed %d for %s over %s: %d injections of %d faults, then %s in which nothing is done and all must recover.",
		Version, o.Seed, what, o.Duration, p.fault, len(p.used), p.quiet)
	if o.Met != nil {
		doc += " Preferred is what " + o.Met.Name + " has met least."
	}
	every, calm := history.Duration(period), history.Duration(p.quiet)
	p.add(nil, scenario.Step{Sleep: &calm})
	return &scenario.Scenario{
		APIVersion: scenario.APIVersion, Kind: scenario.Kind,
		Metadata: scenario.Metadata{Name: fmt.Sprintf("chaos-%d", o.Seed), Doc: doc, Labels: []string{"chaos"}},
		Topology: scenario.Layout{Nodes: p.nodes},
		Driver:   scenario.Driver{Name: o.Driver},
		Period:   &every,
		Alone:    true, // the faults of others would be in its history
		Limit:    history.Duration(o.Duration + limit),
		Steps:    p.steps,
		Expect: scenario.Expect{Invariants: []scenario.Verdict{
			{Invariant: "answer-within-quota", Verdict: scenario.Held}, {Invariant: "never-unbounded", Verdict: scenario.Held},
		}},
	}
}
