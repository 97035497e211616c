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
	unknown  bool // not all of its volumes are known
}

// resolve finds the pod's volumes, while the history is where they are known.
func (p *stranded) resolve(m *model.Model) {
	for _, claim := range p.pod.Claims {
		v, ok := m.Volume(&model.Use{Claim: p.pod.Namespace + "/" + claim})
		p.unknown = p.unknown || !ok
		p.volumes = append(p.volumes, v)
	}
}

// judge wants the pod, which waited when the fault was healed, to run in time.
func (p *stranded) judge(m *model.Model, t shared, h healing) {
	if p.unknown || p.from.At > h.to.At || p.to.At < h.to.At || !p.waitedThrough(m, h) {
		return
	}
	took := model.Plus(recoverBound, min(h.to.At-max(h.from, p.from.At), attacherBackoff))
	for _, v := range p.volumes {
		if period, ok := m.Period(v.Driver).At(h.to.At); ok && period.Value != nil {
			took = model.Plus(took, 2*min(model.Seconds(*period.Value), attacherBackoff))
		}
	}
	deadline := model.Plus(h.to.At, model.Plus(took, m.Slack()))
	switch {
	case p.ran && p.to.At <= deadline:
		t.of(history.Attacher).held(p.pod.Name, p.scope)
		t.of(history.Attacher).measured(p.pod.Name, 1, p.to.At-h.to.At)
		return
	case p.to.At <= deadline || deadline > m.End() || p.hindered(m, h.to.At, deadline):
		return
	}
	blamed, why, ref := p.blame(m, h.to.At, deadline)
	t.of(blamed).late(m, p.pod.Name, h.to.At, deadline, finding{
		at: deadline, scope: p.scope, evidence: []history.Ref{p.from.Ref, h.to.Ref, ref},
		detail: fmt.Sprintf("want the pod to run on %q within %s + %s after the heal at %s, got it waiting at %s: %s",
			p.pod.NodeName, took, m.Slack(), m.Since(h.to.At), m.Since(deadline), why),
	}, history.PrefixAPI+"pods", history.PrefixCSI+"controller/")
}

// waitedThrough says whether the fault kept the pod: an attach of one of its volumes was tried in vain while it lasted.
func (p *stranded) waitedThrough(m *model.Model, h healing) bool {
	return slices.ContainsFunc(p.volumes, func(v model.VolumeID) bool {
		return slices.ContainsFunc(m.Publishes(), func(c *model.Call) bool {
			return c.Volume == v.Handle && c.Driver == v.Driver && c.Invoked >= h.from && c.Invoked <= h.to.At && !c.OK()
		})
	})
}

// hindered says whether something else kept the pod: a refusal of the backend that was no fault's, before or after, or another fault.
func (p *stranded) hindered(m *model.Model, from, to time.Duration) bool {
	node := p.pod.NodeName
	for _, v := range p.volumes {
		for _, a := range m.Attaches(model.Place{Node: node, Volume: v.Handle}) {
			if a.Answer != nil && a.Answer.Decision == history.Refused && a.Answer.Fault == "" && a.Invoked <= to {
				return true
			}
		}
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
		for _, c := range m.Publishes() {
			if c.Volume == v.Handle && c.Driver == v.Driver && c.Node == p.pod.NodeName && c.Invoked <= to {
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
