// Package upgrade takes a cluster over versions while it works: it carries out a plan of package plan/upgrade, step by step, on a bench with a workload.
//
// Contract: the steps are taken in order, each after the one before is done, and the first that fails ends the walk. Pods with volumes come, go and stay,
// and quotas change, from the first step to the last. While the cluster bakes, the stop rules of package stoprules read its signals; a broken one ends the
// walk there, with the period unset and the counts as they last could be trusted, and one that pauses growth stops the workload from growing. All of it is
// on the record, as events of history.SourceUpgrade.
//
// It does not plan, and it does not judge: whether pods and volumes were left alone and swaps were quick is for the invariants.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	plan "headroom/e2e/framework/plan/upgrade"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

// Period is what the last step of an upgrade sets.
const Period = run.Shortest

// NodeLease is how long the leases of a walk's kubelets are good for. They renew them every quarter of it, so that a swap is soon seen to be over.
const NodeLease = 8 * time.Second

// limit bounds a walk's step besides its bake: a drain with the detaching of all volumes, or the start of a component.
const limit = 3 * time.Minute

// Requirement is the walk as a row of the report.
var Requirement = run.Requirement{
	ID:       history.SpecWalk,
	Claim:    "Every step of the walk over versions ends: components start at their new version, drained pods run elsewhere, the period is stored.",
	Source:   "KEP-4876, upgrade and downgrade strategy; Kubernetes version skew policy",
	Boundary: history.APIServer,
}

// Options are a walk to take.
type Options struct {
	plan.Options
	// Steps are the plan of these options.
	Steps []plan.Step
	// NewDriver is what plays the driver's new release, for the record.
	NewDriver string
	// Noise lets the backend fail for a few seconds again and again while the cluster bakes, and foreign attachments come and go: what a driver must bear.
	Noise bool
	// StaleWriter lets a controller write an older count back once in each bake in which counts follow quotas, which must pause growth and end nothing.
	StaleWriter bool
	// Out receives a line for each step.
	Out io.Writer
}

// walk is one walk that is under way.
type walk struct {
	*run.Bench
	Options
	out  *history.Writer
	load *load
	// period says whether it is set.
	period bool
	// kubelets and server are the versions that run, for what they can be expected to do.
	server   versions.Version
	kubelets map[string]versions.Version
	bakes    *watcher
}

// Walk makes a bench, takes the steps, and takes the bench away. How it went is on the record; the error says what could not be put away afterwards.
func Walk(ctx context.Context, s *run.Session, o Options) (err error) {
	s.Begin(Requirement)
	out, err := s.Writer(history.SourceUpgrade)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	b, err := s.NewBench(ctx, setup(o.Nodes))
	if err != nil {
		s.EndSpec(Requirement, run.Outcome{Failure: run.BenchFailure(err)})
		return nil
	}
	w := &walk{Bench: b, Options: o, out: out, server: o.From, kubelets: map[string]versions.Version{}}
	for _, n := range b.Nodes {
		w.kubelets[n] = o.From
	}
	stopped, failed := w.take(ctx)
	body := history.Walk{From: o.From.String(), To: o.To.String(), NewDriver: o.NewDriver, Steps: len(o.Steps)}
	phase := history.OK
	switch {
	case failed != nil:
		phase, body.Error = history.Fail, failed.Error()
	case stopped != nil:
		// What changed last before a rule was broken is the driver, or what asks it.
		phase, body.Stopped, failed = history.Fail, stopped.Rule.Name, run.Blame(history.Driver, stopped)
	}
	w.write(history.Event{Phase: phase, Op: history.KeyWalk, Key: history.KeyWalk, Body: history.Encode(body)})
	if ctx.Err() != nil && failed != nil {
		failed = &cluster.EnvironmentError{Op: "walk", Err: errors.Join(errors.New("interrupted"), failed)}
	}
	s.EndSpec(Requirement, run.Outcome{Scope: b.Scope, Failure: failed})
	if ctx.Err() != nil {
		return nil // the cluster goes at once, and the bench with it
	}
	return b.Remove(ctx)
}

// setup has room for all pods of the load on the nodes but one.
func setup(nodes int) run.Setup {
	var s run.Setup
	for range nodes {
		s.Nodes = append(s.Nodes, run.Node{Limit: mostRoom})
	}
	return s
}

// write adds an event of the walk.
func (w *walk) write(e history.Event) {
	e.Scope = w.Scope
	w.out.Write(e)
}

// take takes the steps, until one fails or a stop rule is broken.
func (w *walk) take(ctx context.Context) (stopped *stopError, err error) {
	w.write(history.Event{Phase: history.Invoke, Op: history.KeyWalk, Key: history.KeyWalk, Body: history.Encode(history.Walk{
		From: w.From.String(), To: w.To.String(), NewDriver: w.NewDriver, Steps: len(w.Steps),
	})})
	if w.load, err = newLoad(ctx, w.Bench, w.Seed, w.Noise); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.load.end()) }()
	w.bakes = newWatcher(w)
	for _, step := range w.Steps {
		s := w.step(step)
		fmt.Fprintf(w.Out, "%s\n", step) // a terminal that is gone ends nothing
		s.record(history.Invoke, nil)
		err := run.Try("step "+strconv.Itoa(step.Number), func() { w.Check(w.do(ctx, s)) })
		var broken *stopError
		switch {
		case errors.As(err, &broken):
			s.record(history.Fail, err)
			return broken, broken.held
		case err != nil:
			s.record(history.Fail, err)
			return nil, fmt.Errorf("step %s: %w", strings.Join(strings.Fields(step.String()), " "), err)
		}
		s.record(history.OK, nil)
		if err := w.load.failed(); err != nil {
			return nil, fmt.Errorf("workload, after step %d: %w", step.Number, err)
		}
	}
	return nil, nil
}

// step is a step with what it acts on.
type step struct {
	plan.Step
	walk *walk
	// node is the name of the node that it is about, "" for none; component the id of what it changes.
	node, component string
}

func (w *walk) step(p plan.Step) *step {
	s := &step{Step: p, walk: w}
	if n, ok := strings.CutPrefix(p.Target, "node/"); ok {
		i, err := strconv.Atoi(n)
		w.Check(err)
		s.node = w.Nodes[i-1]
	}
	switch {
	case p.Do == plan.Driver && s.node == "":
		s.component = "driver-controller@" + w.Driver
	case p.Do == plan.Driver:
		s.component = w.DriverOn(s.node)
	case p.Do != plan.Swap:
	case s.node != "":
		s.component = "kubelet@" + s.node
	case p.Target == versions.AttacherComponent:
		s.component = versions.AttacherComponent + "@" + w.Driver
	default:
		s.component = p.Target
	}
	return s
}

// op joins the events of a step.
func (s *step) op() string { return fmt.Sprintf("step-%d", s.Number) }

func (s *step) record(phase history.Phase, failed error) {
	body := history.WalkStep{
		Number: s.Number, Leg: s.Leg, Do: string(s.Do), Component: s.component, From: s.From.String(), To: s.To.String(), Unsupported: s.Unsupported,
	}
	if failed != nil {
		body.Error = failed.Error()
	}
	s.walk.write(history.Event{Phase: phase, Op: s.op(), Node: s.node, Key: history.KeyStep, Body: history.Encode(body)})
}

// do does one step.
func (w *walk) do(ctx context.Context, s *step) error {
	if s.Do == plan.Bake {
		return w.bakes.bake(ctx, s)
	}
	ctx, cancel := context.WithTimeout(ctx, w.Session.Stretch(limit))
	defer cancel()
	switch s.Do {
	case plan.Swap:
		return w.swap(ctx, s)
	case plan.Driver:
		return w.release(ctx, s)
	case plan.Drain:
		return w.drain(ctx, s.node)
	case plan.Uncordon:
		return w.uncordon(ctx, s.node)
	case plan.SetPeriod:
		return w.setPeriod(ctx)
	case plan.UnsetPeriod:
		return w.unsetPeriod(ctx)
	}
	return fmt.Errorf("no way to %s", s.Do)
}
