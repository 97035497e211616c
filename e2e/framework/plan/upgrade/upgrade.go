// Package upgrade plans a walk over versions: an upgrade node by node, a rollback from any of its steps, and the upgrade again.
//
// Contract: a plan is a pure function of its options: the same options give the same steps, on every machine. What cannot be done is an error before
// anything is. After each step the versions that run together are supported by the Kubernetes version skew policy; steps that the policy does not
// support, such as the rollback of a control plane, are labelled.
//
// It does nothing: the engine carries plans out.
package upgrade

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/versions"
)

// Options say which walk to plan.
type Options struct {
	// From and To are Kubernetes versions of the table; From is the older one.
	From, To versions.Version
	// Nodes is how many there are, Canaries how many of them are upgraded first.
	Nodes, Canaries int
	// Bake is how long the cluster is watched after its canaries have a new kubelet, after they have a new driver, and after the period is set.
	Bake time.Duration
	// Controller says that the driver has a controller process of its own, which changes its release before the nodes do.
	Controller bool
	// RollbackAfter is the number of the step after which everything is rolled back; 0 lets the seed choose, and a negative number plans no rollback.
	RollbackAfter int
	// Again upgrades once more after the rollback.
	Again bool
	// Seed chooses the canaries, the order of the other nodes, and the step of the rollback.
	Seed int64
}

// Action is what a step does.
type Action string

const (
	// Swap stops a component and starts it at another version.
	Swap Action = "swap"
	// Drain evicts a node's pods before its kubelet changes its minor version; Uncordon lets pods come back.
	Drain    Action = "drain"
	Uncordon Action = "uncordon"
	// Bake lets time pass, in which the signals must stay quiet.
	Bake Action = "bake"
	// Driver replaces the driver under test on a node by another release of it.
	Driver Action = "driver"
	// SetPeriod and UnsetPeriod change CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds.
	SetPeriod   Action = "set period"
	UnsetPeriod Action = "unset period"
)

// Step is one thing to do.
type Step struct {
	// Number counts from 1 through the whole plan.
	Number int
	// Leg is the part of the walk: "upgrade", "rollback" or "upgrade again".
	Leg string
	Do  Action
	// Target is a component kind, a node as "node/2", "controller" for the driver's, or "" for the whole cluster.
	Target string
	// From and To are versions of a component, or releases of a driver; "" where nothing changes its version.
	From, To versions.Version
	// For is how long a bake takes.
	For time.Duration
	// Unsupported is the rule of the version skew policy that the step breaks, "" for none.
	Unsupported string
}

// Releases of the driver under test: the one before the upgrade and the one that it leads to.
const (
	oldDriver versions.Version = "1"
	newDriver versions.Version = "2"
)

// controller is the target of the step that changes the release of a driver's controller.
const controller = "controller"

// maxNodes keeps a plan to what one machine can run.
const maxNodes = 50

// Check returns what is wrong with the options, with the rule that forbids it.
func (u Options) Check() error {
	table := versions.Embedded()
	var errs []error
	for _, v := range []versions.Version{u.From, u.To} {
		if _, err := table.Lookup(v); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	switch {
	case u.From.Compare(u.To) >= 0:
		errs = append(errs, fmt.Errorf("upgrade from %s to %s: want a newer version to upgrade to", u.From, u.To))
	case u.Nodes < 1 || u.Nodes > maxNodes:
		errs = append(errs, fmt.Errorf("%d nodes: want 1 to %d", u.Nodes, maxNodes))
	case u.Canaries < 1 || u.Canaries > u.Nodes:
		errs = append(errs, fmt.Errorf("%d canary nodes: want 1 to the number of nodes, %d", u.Canaries, u.Nodes))
	case u.Bake <= 0:
		errs = append(errs, fmt.Errorf("bake for %s: want more than 0s", u.Bake))
	case u.Again && u.RollbackAfter < 0:
		errs = append(errs, errors.New("upgrade again without a rollback: plan a rollback, or leave the second upgrade out"))
	}
	if _, err := hops(table, u.From, u.To); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// hops are the versions that the control plane goes through: one of each minor release, since none may be skipped.
func hops(table versions.Table, from, to versions.Version) ([]versions.Version, error) {
	var all []versions.Version
	at := from
	for _, r := range table.Between(from, to) {
		if r.Version == from || r.Version != to && r.Version.MinorOf() == from.MinorOf() {
			continue
		}
		if err := table.Skew.Upgrade(at, r.Version); err != nil {
			return nil, fmt.Errorf("%w; kind-configs/versions.yaml has no release in between", err)
		}
		all, at = append(all, r.Version), r.Version
	}
	return all, nil
}

// Through lists the versions that components pass on the way, To included.
func (u Options) Through() ([]versions.Version, error) {
	return hops(versions.Embedded(), u.From, u.To)
}

// Steps plans the walk: the upgrade, and where it is wanted the rollback in reverse and the second upgrade.
func (u Options) Steps() ([]Step, error) {
	if err := u.Check(); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(uint64(u.Seed), uint64(u.Nodes)))
	up, err := u.upgrade(random)
	if err != nil {
		return nil, err
	}
	if u.RollbackAfter > len(up) {
		return nil, fmt.Errorf("rollback after step %d: the upgrade has %d steps", u.RollbackAfter, len(up))
	}
	all := leg("upgrade", up)
	if u.RollbackAfter >= 0 {
		after := u.RollbackAfter
		if after == 0 {
			after = 1 + random.IntN(len(up))
		}
		all = leg("upgrade", up[:after])
		all = append(all, leg("rollback", back(up[:after]))...)
		if u.Again {
			all = append(all, leg("upgrade again", up)...)
		}
	}
	for i := range all {
		all[i].Number = i + 1
	}
	return all, nil
}

func leg(name string, steps []Step) []Step {
	all := slices.Clone(steps)
	for i := range all {
		all[i].Leg = name
	}
	return all
}

// upgrade is the way up, as KEP-4876 and the version skew policy order it: attacher, API server, then controller manager and scheduler, one minor release
// after the other; canary nodes, a bake, the other nodes; then the driver in the same way; and the period when all that act on it are there.
func (u Options) upgrade(random *rand.Rand) ([]Step, error) {
	table := versions.Embedded()
	from, err := table.Lookup(u.From)
	if err != nil {
		return nil, err
	}
	to, err := table.Lookup(u.To)
	if err != nil {
		return nil, err
	}
	var steps []Step
	if from.Attacher != to.Attacher {
		steps = append(steps, Step{Do: Swap, Target: versions.AttacherComponent, From: from.Attacher, To: to.Attacher})
	}
	through, err := hops(table, u.From, u.To)
	if err != nil {
		return nil, err
	}
	at := u.From
	for _, next := range through {
		for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			steps = append(steps, Step{Do: Swap, Target: component, From: at, To: next})
		}
		// A kubelet may lag behind by some minor releases; before it would lag too far, the nodes have to follow.
		if oldest := table.Skew.Kubelet; next.Minor()-u.From.Minor() > oldest {
			return nil, fmt.Errorf("upgrade from %s to %s: kubelets %s would be more than %d minor versions behind; upgrade to %s first", u.From, u.To, u.From, oldest, at)
		}
		at = next
	}
	order := random.Perm(u.Nodes)
	canaries, others := order[:u.Canaries], order[u.Canaries:]
	slices.Sort(canaries)
	for _, n := range canaries {
		steps = append(steps, u.node(n)...)
	}
	steps = append(steps, Step{Do: Bake, For: u.Bake})
	for _, n := range others {
		steps = append(steps, u.node(n)...)
	}
	if u.Controller {
		steps = append(steps, release(controller))
	}
	for _, n := range canaries {
		steps = append(steps, release(nodeName(n)))
	}
	steps = append(steps, Step{Do: Bake, For: u.Bake})
	for _, n := range others {
		steps = append(steps, release(nodeName(n)))
	}
	return append(steps, Step{Do: SetPeriod}, Step{Do: Bake, For: u.Bake}), nil
}

// release is the step to the driver's new release.
func release(target string) Step {
	return Step{Do: Driver, Target: target, From: oldDriver, To: newDriver}
}

func nodeName(n int) string { return fmt.Sprintf("node/%d", n+1) }

// node upgrades one kubelet. A minor version of a kubelet changes under no running pod.
func (u Options) node(n int) []Step {
	swap := Step{Do: Swap, Target: nodeName(n), From: u.From, To: u.To}
	if u.From.MinorOf() == u.To.MinorOf() {
		return []Step{swap}
	}
	return []Step{{Do: Drain, Target: nodeName(n)}, swap, {Do: Uncordon, Target: nodeName(n)}}
}

// back is the way back from what was done, in reverse. The period goes first because it was set last; a drained node is drained for its way back too.
func back(done []Step) []Step {
	var steps []Step
	for _, s := range slices.Backward(done) {
		switch s.Do {
		case Bake:
			continue // there is nothing to take back
		case SetPeriod:
			s.Do = UnsetPeriod
		case Drain:
			s.Do = Uncordon
		case Uncordon:
			s.Do = Drain
		case Swap, Driver:
			s.From, s.To = s.To, s.From
			if err := versions.Embedded().Skew.Upgrade(s.From, s.To); err != nil && s.Target == "kube-apiserver" {
				s.Unsupported = "no rollback of a minor version of the control plane"
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// String is a step as people read it: "7  upgrade  swap kube-apiserver v1.35.4 -> v1.36.3".
func (s Step) String() string {
	text := fmt.Sprintf("%2d  %-13s  %s", s.Number, s.Leg, s.Do)
	if s.Target != "" {
		text += " " + s.Target
	}
	if s.To != "" {
		text += fmt.Sprintf(" %s -> %s", s.From, s.To)
	}
	if s.For > 0 {
		text += " " + s.For.String()
	}
	if s.Unsupported != "" {
		text += "  (unsupported: " + s.Unsupported + ")"
	}
	return text
}

// Text is a plan as people read it, one step on a line.
func Text(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}
