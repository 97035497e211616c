package invariants

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// stranded is a pod from its binding to its running, or its end.
type stranded struct {
	pod      *model.Pod
	scope    string
	from, to model.Stamp // to.At is Forever while it waits
	ran      bool
	volumes  []model.VolumeID
	unknown  bool          // not all of its volumes are known
	until    time.Duration // heals up to here were taken
	heals    []*strandedAt
}

// strandedAt is what is known of a pod that waited when a fault was healed.
type strandedAt struct {
	healing
	// waited says that the fault kept the pod, known that this is settled; refused that the backend refused an attach without being at fault.
	waited, known, refused bool
}

// resolve finds the pod's volumes, while the history is where they are known.
func (p *stranded) resolve(m *model.Model) {
	if p.volumes != nil && !p.unknown {
		return
	}
	p.volumes, p.unknown = nil, false
	for _, claim := range p.pod.Claims {
		v, ok := m.Volume(&model.Use{Claim: p.pod.Namespace + "/" + claim})
		p.unknown = p.unknown || !ok
		p.volumes = append(p.volumes, v)
	}
}

// settle follows the pod up to the time to and says whether all is judged.
func (p *stranded) settle(m *model.Model, t shared, to time.Duration) (over bool) {
	if to == model.Forever {
		p.resolve(m)
	}
	for _, h := range lastHeals(m, p.pod.NodeName, "attach", p.until, to) {
		if p.from.At <= h.to.At && h.to.At <= p.to.At {
			p.heals = append(p.heals, &strandedAt{healing: h})
		}
	}
	p.until = to
	p.heals = slices.DeleteFunc(p.heals, func(h *strandedAt) bool { return p.judge(m, t, h, to) })
	return p.to.At <= to && len(p.heals) == 0
}

// judge wants the pod, which waited when the fault was healed, to run in time. It says whether that is settled.
func (p *stranded) judge(m *model.Model, t shared, h *strandedAt, to time.Duration) (over bool) {
	took := model.Plus(recoverBound, min(h.to.At-max(h.from, p.from.At), attacherBackoff))
	for _, v := range p.volumes {
		if period, ok := m.Period(v.Driver).At(h.to.At); ok && period.Value != nil {
			took = model.Plus(took, 2*min(model.Seconds(*period.Value), attacherBackoff))
		}
	}
	deadline := model.Plus(h.to.At, model.Plus(took, m.Slack()))
	p.follow(m, h, min(to, deadline), to)
	switch {
	case min(p.to.At, deadline) > to || !h.known:
		return false
	case p.unknown || !h.waited:
		return true
	case p.ran && p.to.At <= deadline:
		ran := t.of(history.Attacher)
		name := ran.pod(p.pod.Name)
		ran.held(name, p.scope)
		ran.measured(name, 1, p.to.At-h.to.At)
		return true
	case p.to.At <= deadline || deadline > m.End() || h.refused || p.hindered(m, h.to.At, deadline):
		return true
	}
	blamed, why, ref := p.blame(m, h.to.At, deadline)
	t.of(blamed).late(m, t.of(blamed).pod(p.pod.Name), h.to.At, deadline, finding{
		at: deadline, scope: p.scope, evidence: []history.Ref{p.from.Ref, h.to.Ref, ref},
		detail: fmt.Sprintf("want the pod to run on %q within %s + %s after the heal at %s, got it waiting at %s: %s",
			p.pod.NodeName, took, m.Slack(), m.Since(h.to.At), m.Since(deadline), why),
	}, history.PrefixAPI+"pods", history.PrefixCSI+"controller/")
	return true
}

// follow remembers what was refused by the time by, and whether the fault kept the pod, once the calls of its time were answered. The attacher tries again
// often enough for the last of them to tell.
func (p *stranded) follow(m *model.Model, h *strandedAt, by, to time.Duration) {
	since := model.Minus(h.to.At, model.TroubleFor)
	open := false
	for _, v := range p.volumes {
		for _, a := range m.Attaches(model.Place{Node: p.pod.NodeName, Volume: v.Handle}) {
			h.refused = h.refused || a.Answer != nil && a.Answer.Decision == history.Refused && a.Answer.Fault == "" && a.Invoked >= since && a.Done <= by
		}
		for _, c := range m.Publishes(v.Handle) {
			if c.Driver == v.Driver && c.Invoked >= max(h.from, since) && c.Invoked <= h.to.At && !h.known {
				open = open || c.Over() > to
				h.waited = h.waited || !c.OK() && c.Over() <= to
			}
		}
	}
	h.known = h.known || !open
}

// hindered says whether something else kept the pod: another fault.
func (p *stranded) hindered(m *model.Model, from, to time.Duration) bool {
	node := p.pod.NodeName
	for _, v := range p.volumes {
		if m.Interrupted(from+1, to, "kube-controller-manager", "kube-apiserver", "etcd", "csi-attacher@"+v.Driver, "driver-controller@"+v.Driver,
			"driver@"+node, "driver@"+node+"/"+v.Driver) {
			return true
		}
	}
	return m.Outage(node, "attach", from+1, to) || m.Disturbed(node, from+1, to)
}

// blame names the boundary that the pod is stuck at, and the event that shows it.
func (p *stranded) blame(m *model.Model, from, to time.Duration) (history.Boundary, string, history.Ref) {
	for _, v := range p.volumes {
		var last *model.Call
		for _, c := range m.Publishes(v.Handle) {
			if c.Driver == v.Driver && c.Node == p.pod.NodeName && c.Invoked <= to {
				last = c
			}
		}
		switch {
		case last == nil || last.Invoked < from && !last.OK():
			return history.Attacher, fmt.Sprintf("the driver was not asked again for volume %q", v.Handle), history.Ref{}
		case !last.OK():
			return history.Driver, fmt.Sprintf("the driver answered the publish of volume %q with code %d at %s", v.Handle, last.Code, m.Since(last.Done)), last.End
		}
	}
	return history.Kubelet, "its volumes are attached", history.Ref{}
}
