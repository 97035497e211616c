package invariants

import (
	"fmt"
	"testing"

	"headroom/e2e/framework/history"
)

// busy makes a history of about n events in which pods come and go on full nodes and others wait for each place.
func busy(n int) ([]history.Event, history.Header) {
	const nodes, places = 20, 5
	s := newScript()
	object := func(at float64, source, key, node string, body any) {
		s.add(at, history.Event{Source: "api/" + source, Key: key, Node: node, Rev: rev(at)}, body)
	}
	labels, limit := map[string]string{"bench": "1"}, int32(places)
	for i := range nodes {
		name := fmt.Sprint("n", i)
		object(0, "nodes", name, name, history.Node{Labels: labels})
		object(0, "csinodes", name, "", history.CSINode{Drivers: []history.CSINodeDriver{{Name: testDriver, Count: &limit}}})
	}
	at := 1.0
	for i := 0; len(s.raw) < n; i, at = i+1, at+0.1 {
		pod, pv, node := fmt.Sprint("ns/p", i), fmt.Sprint("pv", i), fmt.Sprint("n", i%nodes)
		b := history.Pod{Object: history.Object{UID: pod}, PodPhase: "Pending", Claims: []string{fmt.Sprint("c", i)}, Selector: labels}
		object(at, "persistentvolumes", pv, "", history.PV{Driver: testDriver, Handle: pv})
		object(at, "persistentvolumeclaims", fmt.Sprint("ns/c", i), "", history.PVC{VolumeName: pv})
		object(at, "pods", pod, "", b)
		// What comes now is placed when the pod that it replaces has gone.
		placed := at + 5
		b.NodeName = node
		object(placed, "pods", pod, node, b)
		va := history.VolumeAttachment{Attacher: testDriver, NodeName: node, PVName: pv}
		object(placed+0.01, "volumeattachments", "va"+pv, node, va)
		b.PodPhase = "Running"
		object(placed+0.5, "pods", pod, node, b)
		gone := placed + 0.1*nodes*places - 2
		b.Type = "DELETED"
		object(gone, "pods", pod, node, b)
		va.Type = "DELETED"
		object(gone+1.5, "volumeattachments", "va"+pv, node, va)
		object(gone+2, "persistentvolumes", pv, "", history.PV{Object: history.Object{Type: "DELETED"}})
		object(gone+2, "persistentvolumeclaims", fmt.Sprint("ns/c", i), "", history.PVC{Object: history.Object{Type: "DELETED"}})
		if i%10 == 0 {
			s.beat(at, 0)
		}
	}
	return s.events(), s.header
}

func BenchmarkJudgePlacement(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			events, h := busy(n)
			for b.Loop() {
				if rep := Judge(sequence(events), h); rep.Events != len(events) {
					b.Fatal(rep.Err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
		})
	}
}

// TestJudgeBusyHistory keeps the benchmark's history meaningful: placement is judged and holds.
func TestJudgeBusyHistory(t *testing.T) {
	events, h := busy(5_000)
	rep := Judge(sequence(events), h)
	for _, r := range rep.Results {
		switch r.Name {
		case "bind-within-seen", "no-leaked-attachment":
			if r.Status() != Held {
				t.Errorf("%s: want Held, got %+v", r.Name, r.Verdicts)
			}
		default:
			if s := r.Status(); s != "" && s != Held {
				t.Errorf("%s: want nothing wrong, got %+v", r.Name, r.Verdicts)
			}
		}
	}
}
