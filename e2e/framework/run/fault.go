package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"headroom/chaos"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// healTimeout bounds one healing: a component that starts may take a minute.
const healTimeout = 90 * time.Second

// injected is a fault that is active.
type injected struct {
	key  string
	heal chaos.Heal
	// record writes a state of the fault.
	record func(state, detail string)
}

// target is what faults and steps act on.
func (p *player) target(t scenario.Target) chaos.Target {
	return chaos.Target{
		Target: t, Nodes: p.Nodes, Driver: p.Driver, Cluster: p.Cluster, Client: p.Client, Quota: p.Quota, Record: p.Record,
	}
}

// inject injects a fault, on the record: inject before it is asked for, effective when it is. A fault that cannot be injected is the environment's.
func (p *player) inject(ctx context.Context, f *scenario.Fault) error {
	fault, ok := chaos.Find(f.Name)
	if !ok {
		return fmt.Errorf("no fault %q; there are: %q", f.Name, chaos.Names())
	}
	to := p.target(f.Target)
	body := history.Fault{Target: f.Target.String(), Nodes: to.Affected()}
	op := p.Scope + "/" + f.Key() + fmt.Sprintf("/%d", p.faults())
	i := &injected{key: f.Key(), record: func(state, detail string) {
		body.State, body.Detail = state, detail
		p.owner.faults.Write(history.Event{
			Phase: history.Observed, Op: op, Scope: p.Scope, Node: to.Node(), Key: f.Name, Body: history.Encode(body),
		})
	}}
	i.record("inject", "")
	var err error
	if i.heal, err = fault.Inject(ctx, to, p.random, f.Decoded()); err != nil {
		i.record("failed", err.Error())
		return cluster.Environment("inject "+f.Name+" on "+body.Target, err)
	}
	i.record("effective", "")
	p.active = append(p.active, i)
	return nil
}

// faults numbers injections, since a scenario may use an id again.
func (p *player) faults() int {
	p.injections++
	return p.injections
}

// end heals one fault. It takes place even when the run is interrupted: ctx only lends its values.
func (p *player) end(ctx context.Context, i *injected) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	p.active = slices.DeleteFunc(p.active, func(o *injected) bool { return o == i })
	i.record("heal", "")
	if err := i.heal(ctx); err != nil {
		i.record("failed", "heal: "+err.Error())
		return &cluster.EnvironmentError{Op: "heal " + i.key, Err: err}
	}
	i.record("healed", "")
	return nil
}

// heal is the step that ends the fault of an id.
func (p *player) heal(ctx context.Context, key string) error {
	at := slices.IndexFunc(p.active, func(i *injected) bool { return i.key == key })
	if at < 0 {
		return fmt.Errorf("no fault %q is active", key)
	}
	return p.end(ctx, p.active[at])
}

// healAll ends what is still active, the last one first, and goes on after an error.
func (p *player) healAll(ctx context.Context) error {
	var errs []error
	for len(p.active) > 0 {
		errs = append(errs, p.end(ctx, p.active[len(p.active)-1]))
	}
	return errors.Join(errs...)
}
