package invariants

import (
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// orphanBound is what the controller manager and the attacher may take to detach a volume that no pod uses any more.
const orphanBound = 60 * time.Second

// orphan is a VolumeAttachment since no live pod on its node uses the volume.
type orphan struct {
	name, node, scope string
	volume            model.VolumeID
	// since is when the last pod's end was seen; rejected names that pod where it was rejected for lack of room.
	since    model.Stamp
	rejected string
	// deleting says that its deletion was asked for.
	deleting bool
	// to is when it was gone; At is Forever while it is not.
	to model.Stamp
	// mounted is until when the kubelet had the volume in use, as its Node says: Forever while it has.
	mounted time.Duration
	// last is the last unpublish of the volume on the node since, and last before by the slack, nil without one.
	last *model.Call
}

// orphans follows VolumeAttachments whose pods have ended. What was adopted by another pod is forgotten, what was gone in time only counted.
type orphans struct {
	attached map[string]map[string]*history.VolumeAttachment // node, name: those that exist
	open     map[string]*orphan
	late     backlog[*orphan]
	lived    map[string]bool // attachments that a live pod had
	// rejected and ended count what was gone in time, by whether the last pod was rejected.
	rejected, ended tally
}

func newOrphans() orphans {
	return orphans{attached: map[string]map[string]*history.VolumeAttachment{}, open: map[string]*orphan{}, lived: map[string]bool{},
		rejected: tally{}, ended: tally{}}
}

func (o *orphans) observe(m *model.Model, s *model.Step) {
	switch b := s.Body.(type) {
	case *history.CSICall:
		if c := s.Call; c.Method == model.Unpublish && c.Side == history.DriverSide && (s.Phase == history.Invoke || c.Orphan) {
			for _, u := range o.open {
				u.asked(c)
			}
		}
	case *history.VolumeAttachment:
		o.attachment(m, s, b)
	case *history.Pod:
		for name, va := range o.attached[b.NodeName] {
			o.look(m, s, name, va, m.PodSeen(s.Key, b))
		}
	case *history.Node:
		for name := range o.attached[s.Key] {
			if u := o.open[name]; u != nil {
				u.look(m, s.At)
			}
		}
	}
}

func (o *orphans) attachment(m *model.Model, s *model.Step, b *history.VolumeAttachment) {
	if b.Type != "DELETED" {
		if o.attached[b.NodeName] == nil {
			o.attached[b.NodeName] = map[string]*history.VolumeAttachment{}
		}
		o.attached[b.NodeName][s.Key] = b
		o.look(m, s, s.Key, b, nil)
		if u := o.open[s.Key]; u != nil {
			u.deleting = b.Deleted != nil
		}
		return
	}
	delete(o.attached[b.NodeName], s.Key)
	delete(o.lived, s.Key)
	if u := o.open[s.Key]; u != nil {
		u.to = model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}
		o.gone(m, u)
		delete(o.open, s.Key)
	}
}

// gone settles an orphan that is no more.
func (o *orphans) gone(m *model.Model, u *orphan) {
	took := u.to.At - u.since.At
	if took > model.Plus(orphanBound, m.Slack()) {
		o.late.push(u)
		return
	}
	t := o.ended
	if u.rejected != "" {
		t = o.rejected
	}
	name := u.subject(t)
	t.held(name, u.scope)
	t.measured(name, 1, took)
}

// subject is the rejected pod, else the node and driver.
func (u *orphan) subject(t tally) string {
	if u.rejected != "" {
		return t.pod(u.rejected)
	}
	return model.ID{Node: u.node, Driver: u.volume.Driver}.String()
}

// look asks whether an attachment still has a live pod. ended is the pod whose change made it worth asking, if any.
func (o *orphans) look(m *model.Model, s *model.Step, name string, b *history.VolumeAttachment, ended *model.Pod) {
	live := m.LivePod(b.NodeName, b.PVName)
	switch u := o.open[name]; {
	case live:
		o.lived[name] = true
		delete(o.open, name)
	case u == nil && o.lived[name]:
		pv, _ := m.PV(b.PVName)
		u = &orphan{
			name: name, node: b.NodeName, scope: s.Scope, volume: model.VolumeID{Driver: b.Attacher, Handle: pv.Handle},
			since: model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}, deleting: b.Deleted != nil, to: model.Stamp{At: model.Forever},
		}
		if ended != nil && ended.PodPhase == "Failed" && ended.Reason == limitExceeded {
			u.rejected = ended.Name
		}
		u.look(m, s.At)
		for _, c := range m.Unpublishes(u.volume.Handle) {
			if c.Invoked >= model.Minus(s.At, m.Slack()) {
				u.asked(c)
			}
		}
		o.open[name] = u
	}
}

// look asks whether the kubelet has the volume in use.
func (u *orphan) look(m *model.Model, now time.Duration) {
	switch {
	case m.Mounted(u.node, u.volume):
		u.mounted = model.Forever
	case u.mounted == model.Forever:
		u.mounted = now
	}
}

// asked remembers an unpublish of the volume on the node.
func (u *orphan) asked(c *model.Call) {
	if c.Volume == u.volume.Handle && c.Driver == u.volume.Driver && c.Node == u.node {
		u.last = c
	}
}

// overdue takes out what was gone late, once its last unpublish was answered; at the end of the history also what is still there.
func (o *orphans) overdue(to time.Duration) []*orphan {
	all := o.late.due(func(u *orphan) bool { return u.to.At <= to && (u.last == nil || u.last.Over() <= to) })
	if to == model.Forever {
		for _, u := range o.open {
			all = append(all, u)
		}
	}
	return all
}

// excused says whether something else than controllers and driver kept the attachment: a fault, or the kubelet, which had the volume in use until less than
// the bound before to.
func (u *orphan) excused(m *model.Model, to time.Duration) bool {
	from := u.since.At
	return m.Outage(u.node, "detach", model.Minus(from, settle), to) || m.Disturbed(u.node, model.Minus(from, settle), to) ||
		m.Interrupted(model.Minus(from, settle), to, "kube-controller-manager", "kube-apiserver", "etcd", "csi-attacher@"+u.volume.Driver,
			"driver-controller@"+u.volume.Driver, "driver@"+u.node, "driver@"+u.node+"/"+u.volume.Driver) ||
		u.mounted > 0 && model.Plus(u.mounted, orphanBound) > to
}

// blame names the boundary that the attachment is stuck at, and the event that shows it.
func (u *orphan) blame(m *model.Model) (history.Boundary, string, history.Ref) {
	last := u.last
	switch {
	case !u.deleting && last == nil:
		return history.ControllerManager, "its deletion was not asked for", history.Ref{}
	case last == nil:
		return history.Attacher, "the driver was not asked to detach it", history.Ref{}
	case last.Answered == "":
		return history.Driver, "the driver has not answered the unpublish at " + m.Since(last.Invoked), last.Start
	case last.OK():
		return history.Attacher, "the driver had answered the unpublish with OK at " + m.Since(last.Done), last.End
	}
	return history.Driver, "the driver failed the unpublish at " + m.Since(last.Done), last.End
}
