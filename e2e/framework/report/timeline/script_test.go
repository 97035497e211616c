package timeline

import (
	"fmt"
	"iter"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/invariants"
)

// script is a history written by hand; times are seconds after its start.
type script struct {
	header history.Header
	events []history.Event
	seq    map[string]uint64
	rev    int64
	judged []report.Judged
}

func newScript() *script {
	return &script{seq: map[string]uint64{}, header: history.Header{
		Schema: history.Schema, Run: "20261129-174100-synthetic", Seed: 7, Provider: "local", Versions: map[string]string{"kubelet": "v1.36.3"},
		Params: history.Params{Driver: history.DriverParams{Name: "steady"}},
	}}
}

func (s *script) add(at float64, source string, phase history.Phase, e history.Event, body any) history.Ref {
	s.seq[source]++
	e.At, e.Source, e.Seq, e.Phase, e.Body = 100*time.Hour+time.Duration(at*1e9), source, s.seq[source], phase, history.Encode(body)
	s.events = append(s.events, e)
	return e.Ref()
}

func (s *script) quota(at float64, node string, limit int64) history.Ref {
	return s.add(at, "backend", history.Observed, history.Event{Node: node, Key: "quota", Scope: "p1-1"}, history.Backend{Quota: &history.Quota{Limit: limit}})
}

func (s *script) answer(at float64, node string, n int64) history.Ref {
	op := fmt.Sprint(len(s.events))
	call := history.CSICall{Side: history.ClientSide, Driver: "d"}
	s.add(at, "csi/"+node, history.Invoke, history.Event{Op: op, Node: node, Key: "NodeGetInfo"}, call)
	call.MaxVolumes, call.NodeID = &n, node
	return s.add(at+0.01, "csi/"+node, history.OK, history.Event{Op: op, Node: node, Key: "NodeGetInfo"}, call)
}

// count writes a CSINode through the API; 0 is unlimited, less removes the entry.
func (s *script) count(at float64, node string, n int32) {
	s.rev++
	var drivers []history.CSINodeDriver
	if n >= 0 {
		drivers = []history.CSINodeDriver{{Name: "d", NodeID: node}}
		if n > 0 {
			drivers[0].Count = &n
		}
	}
	s.add(at, "audit", history.OK, history.Event{Rev: s.rev, Key: "csinodes/" + node}, history.Audit{
		User: "system:node:" + node, Verb: "update", Resource: "csinodes", Name: node, Status: 200, Drivers: drivers,
	})
}

func (s *script) attachment(at float64, node, name, kind string, attached bool) {
	s.add(at, "api/volumeattachments", history.Observed, history.Event{Key: name, Node: node}, history.VolumeAttachment{
		Object: history.Object{Type: kind}, Attacher: "d", NodeName: node, PVName: name, Attached: attached,
	})
}

func (s *script) pod(at float64, node, name, phase, reason string) {
	s.add(at, "api/pods", history.Observed, history.Event{Key: "ns/" + name, Node: node}, history.Pod{
		Object: history.Object{Type: "MODIFIED", UID: name}, NodeName: node, PodPhase: phase, Reason: reason,
	})
}

func (s *script) all() iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for _, e := range s.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *script) violated(name, subject, detail string, evidence ...history.Ref) {
	s.judged = append(s.judged, report.Judged{
		Invariant: invariants.Invariant{Name: name, Claim: "A claim that is long enough to be wrapped on a narrow screen, in one or two sentences.", Boundary: history.Driver},
		Verdicts:  []invariants.Verdict{{Status: invariants.Violated, Boundary: history.Driver, Subject: subject, Scope: "p1-1", Detail: detail, Evidence: evidence}},
	})
}

func (s *script) page() Page {
	r := report.Build(report.Input{Header: s.header, Judged: s.judged, Events: s.all()})
	return Build(s.header, s.all(), r)
}

// busy is a run of n nodes: quota moves, counts follow, pods come and go, the backend fails for a while, and the answers of n1 break a claim.
func busy(n int) *script {
	s := newScript()
	s.add(0, "spec/p1", history.Invoke, history.Event{Key: "count-drop"}, history.Spec{Title: "a drop shows within a period", Boundary: history.Kubelet})
	var bad history.Ref
	for i := range n {
		node := fmt.Sprintf("p1-1-n%d", i+1)
		s.quota(0.1, node, 5)
		s.answer(1, node, 5)
		s.count(1.1, node, 5)
		for round := range 10 {
			at := float64(10*round + i%7)
			limit := int64(3 + (round*7+i)%6)
			ref := s.quota(at+2, node, limit)
			s.answer(at+5, node, limit)
			s.count(at+5.2, node, int32(limit))
			name := fmt.Sprintf("%s-v%d", node, round)
			s.pod(at+6, node, name, "Pending", "")
			s.attachment(at+6.1, node, name, "ADDED", false)
			s.attachment(at+6.5, node, name, "MODIFIED", true)
			if round%3 == 2 {
				s.attachment(at+8, node, name, "DELETED", true)
			}
			if round == 6 && i == 0 {
				bad = ref
				s.pod(at+9, node, name, "Failed", "VolumeAttachmentLimitExceeded")
				s.answer(at+9.5, node, 0)
				s.count(at+9.6, node, 0)
			}
		}
	}
	s.add(40, "backend", history.Observed, history.Event{Node: "p1-1-n2", Key: "fault"}, history.Backend{Fault: "hang", Operations: []string{"get"}})
	s.add(55, "backend", history.Observed, history.Event{Node: "p1-1-n2", Key: "fault"}, history.Backend{})
	s.add(70, history.SourceFault, history.Observed, history.Event{Key: "kill-kubelet", Op: "f1"}, history.Fault{State: "inject", Target: "kubelet@p1-1-n1", Nodes: []string{"p1-1-n1"}})
	s.add(71, "component/cell", history.Observed, history.Event{Key: "kubelet@p1-1-n1"}, history.Component{State: "exited", Exit: "signal: killed"})
	s.add(80, history.SourceFault, history.Observed, history.Event{Key: "kill-kubelet", Op: "f1"}, history.Fault{State: "healed"})
	s.add(60, history.SourceProbe, history.OK, history.Event{}, history.Probe{Latency: history.Duration(1500 * time.Millisecond)})
	s.add(120, "spec/p1", history.Fail, history.Event{Key: "count-drop", Scope: "p1-1"}, history.Spec{Boundary: history.Kubelet, Message: "CSINode \"p1-1-n1\" count: want 4, got none, which is unlimited"})
	s.violated("never-unbounded", "p1-1-n1/d", "want an answer above 0 since quota was known, got 0 at +69.5s", bad, history.Ref{Source: "csi/p1-1-n1", Seq: 15})
	s.judged = append(s.judged, report.Judged{
		Invariant: invariants.Invariant{Name: "one-writer", Boundary: history.APIServer},
		Verdicts:  []invariants.Verdict{{Status: invariants.Held, Subject: "p1-1-n1"}, {Status: invariants.Held, Subject: "p1-1-n2"}},
	})
	return s
}
