package drivercheck

import (
	"context"
	"errors"
	"fmt"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/fixtures/quota"
)

// fault is a way in which the service fails that the limit comes from.
type fault string

const (
	outage    fault = "outage"
	throttled fault = "throttled"
	garbage   fault = "garbage"
	huge      fault = "huge"
	negative  fault = "negative"
)

// errCannot marks what a lever cannot do; the case is skipped with the error's text.
var errCannot = errors.New("")

func cannot(format string, args ...any) error {
	return fmt.Errorf(format+"%w", append(args, errCannot)...)
}

// room is what the service says of a node.
type room struct {
	// limit is for all, foreign of them are not Kubernetes' own, attached are.
	limit, foreign, attached int64
	// queries counts how often the driver has asked for it; negative where nobody counts.
	queries int64
}

// usable is how many volumes Kubernetes may have attached.
func (r room) usable() int64 { return r.limit - r.foreign }

// lever changes what the driver sees of its limit. An error that is not errCannot is the environment's.
type lever interface {
	// look is what the service knows; errCannot where it cannot be asked.
	look(ctx context.Context, node string) (room, error)
	// set changes limit and foreign attachments at once, where both can be.
	set(ctx context.Context, node string, limit, foreign int64) error
	// foreigns says whether foreign attachments can be made.
	foreigns() bool
	// fail begins a fault, heal ends all.
	fail(ctx context.Context, node string, f fault) error
	heal(ctx context.Context, node string) error
	// volume makes a volume known; errCannot where that is not the service's to do.
	volume(ctx context.Context, id string) error
	// restore sets what set changed back, and forgets volumes.
	restore(ctx context.Context, node string) error
}

// backendLever is the control interface of Headroom's quota backend.
type backendLever struct {
	control *quota.Control
	before  *room
	volumes []string
}

func (l *backendLever) look(ctx context.Context, node string) (room, error) {
	st, err := l.control.State(ctx)
	if err != nil {
		return room{}, &cluster.EnvironmentError{Op: "reach the quota backend", Err: err, Remedy: "start one with: headroom quota serve, or correct --quota"}
	}
	n, ok := st.Nodes[node]
	if !ok {
		return room{}, badInput(fmt.Sprintf("add it with: headroom quota set %s --limit 6", node), "the quota backend knows no node %q, which is what the driver calls its node", node)
	}
	r := room{limit: n.Quota.Limit, foreign: n.Quota.Foreign, attached: n.Quota.Attached, queries: n.Queries}
	if l.before == nil {
		l.before = &r
	}
	return r, nil
}

func (l *backendLever) set(ctx context.Context, node string, limit, foreign int64) error {
	return l.control.ChangeNode(ctx, node, quota.NodeChange{Limit: &limit, Foreign: &foreign})
}

func (l *backendLever) foreigns() bool { return true }

func (l *backendLever) fail(ctx context.Context, node string, f fault) error {
	q := map[fault]quota.Fault{
		outage:    {Mode: quota.Refuse},
		throttled: {Mode: quota.Throttle, Operations: []quota.Operation{quota.Attach}},
		garbage:   {Mode: quota.Garbage, Operations: []quota.Operation{quota.Get}},
		huge:      {Mode: quota.Huge},
		negative:  {Mode: quota.Negative},
	}[f]
	q.Nodes = []string{node}
	return l.control.Inject(ctx, q)
}

func (l *backendLever) heal(ctx context.Context, node string) error { return l.control.Heal(ctx, node) }

func (l *backendLever) volume(ctx context.Context, id string) error {
	l.volumes = append(l.volumes, id)
	return l.control.AddVolume(ctx, id, quota.VolumeConfig{})
}

func (l *backendLever) restore(ctx context.Context, node string) error {
	var errs []error
	for _, id := range l.volumes {
		errs = append(errs, l.control.ForceRemoveVolume(ctx, id))
	}
	if l.before != nil {
		errs = append(errs, l.set(ctx, node, l.before.limit, l.before.foreign))
	}
	return errors.Join(errs...)
}

// causeLever is a service of the driver's own, as its definition says how to change it.
type causeLever struct {
	def   *drivers.Definition
	first *int64 // limit at the first set
	spell *drivers.Spell
	other int64 // foreign attachments
}

func (l *causeLever) look(context.Context, string) (room, error) {
	return room{}, cannot("a service of the driver's own cannot be asked")
}

func (l *causeLever) set(ctx context.Context, node string, limit, foreign int64) error {
	c := l.def.Causes
	if c.Limit == nil {
		return cannot("the definition has no causes.limit")
	}
	if foreign != l.other && c.Foreign != nil {
		if err := l.def.Do(ctx, *c.Foreign, node, limit, foreign); err != nil {
			return cluster.Environment("causes.foreign", err)
		}
		l.other = foreign
	}
	return cluster.Environment("causes.limit", l.def.Do(ctx, *c.Limit, node, limit, foreign))
}

func (l *causeLever) foreigns() bool { return l.def.Causes.Foreign != nil }

func (l *causeLever) fail(ctx context.Context, node string, f fault) error {
	spell := map[fault]*drivers.Spell{outage: l.def.Causes.Outage, throttled: l.def.Causes.Throttled}[f]
	if spell == nil {
		if f != outage && f != throttled {
			return cannot("only Headroom's quota backend can do that")
		}
		return cannot("the definition has no causes.%s", f)
	}
	l.spell = spell // also when it fails: it may have begun
	return cluster.Environment(fmt.Sprintf("causes.%s.begin", f), l.def.Do(ctx, spell.Begin, node, 0, 0))
}

func (l *causeLever) heal(ctx context.Context, node string) error {
	if l.spell == nil {
		return nil
	}
	spell := l.spell
	l.spell = nil
	return cluster.Environment("end what causes began", l.def.Do(ctx, spell.End, node, 0, 0))
}

func (l *causeLever) volume(context.Context, string) error {
	return cannot("volumes are not the service's to make")
}

// note keeps the limit to go back to.
func (l *causeLever) note(limit int64) { l.first = &limit }

func (l *causeLever) restore(ctx context.Context, node string) error {
	if l.first == nil || l.def.Causes.Limit == nil {
		return nil
	}
	return l.set(ctx, node, *l.first, 0)
}
