package invariants

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

// script writes a small history by hand: times are seconds after its start, numbers and order are filled in by events.
type script struct {
	header history.Header
	raw    []history.Event
	ops    int
}

const (
	testNode   = "n1"
	testDriver = "d"
	testID     = "n1/d"
)

func newScript() *script {
	return &script{header: history.Header{
		Schema: history.Schema, Run: "golden", Provider: "local", Topology: "one-node",
		Versions: map[string]string{"kubelet": "v1.36.3", "kube-apiserver": "v1.36.3"},
		Params: history.Params{Slack: history.Duration(2 * time.Second), Driver: history.DriverParams{
			Name: "steady", CacheAge: history.Duration(10 * time.Second), LastGoodLife: history.Duration(60 * time.Second),
		}},
	}}
}

func seconds(s float64) time.Duration {
	return 100*time.Second + time.Duration(s*1000)*time.Millisecond
}

func (s *script) add(at float64, e history.Event, body any) {
	e.At = seconds(at)
	if body != nil {
		e.Body = history.Encode(body)
	}
	if e.Phase == "" {
		e.Phase = history.Observed
	}
	s.raw = append(s.raw, e)
}

func (s *script) op() string {
	s.ops++
	return fmt.Sprintf("op%d", s.ops)
}

// events returns the events in merge order, numbered.
func (s *script) events() []history.Event {
	out := slices.Clone(s.raw)
	slices.SortStableFunc(out, func(a, b history.Event) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Source, b.Source)) })
	seq := map[string]uint64{}
	for i := range out {
		seq[out[i].Source]++
		out[i].Seq = seq[out[i].Source]
	}
	return out
}

// judge judges the script, and does not take it when it is judged otherwise with all of it kept to the end, or settled after each event.
func (s *script) judge(invs ...Invariant) Report {
	events := s.events()
	rep := Judge(sequence(events), s.header, invs...)
	for name, p := range otherPaces {
		if other := judge(sequence(events), s.header, p, invs...); told(other) != told(rep) {
			panic(fmt.Sprintf("%s: want as on the way:\n%s\ngot:\n%s", name, told(rep), told(other)))
		}
	}
	return rep
}

func sequence(events []history.Event) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// lines renders the script as a merged history.
func (s *script) lines() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	put := func(v any) {
		if err := enc.Encode(v); err != nil {
			panic(err)
		}
	}
	put(s.header)
	events := s.events()
	gaps := uint64(0)
	for _, e := range events {
		put(e)
		if e.Source == history.SourceMerge {
			gaps++
		}
	}
	end := history.Event{Source: history.SourceMerge, Seq: gaps + 1, Phase: history.Observed, Key: history.KeyEnd}
	if n := len(events); n > 0 {
		end.At = events[n-1].At
	}
	end.Body = history.Encode(map[string]int{"events": len(events)})
	put(end)
	return b.Bytes()
}

func (s *script) quota(at float64, limit, foreign int64) {
	s.add(at, history.Event{Source: "backend", Node: testNode, Key: "quota"}, history.Backend{Quota: &history.Quota{Limit: limit, Foreign: foreign}})
}

func (s *script) outage(at float64, mode string, operations ...string) {
	s.add(at, history.Event{Source: "backend", Node: testNode, Key: "fault"}, history.Backend{Fault: mode, Operations: operations})
}

func (s *script) get(at float64, limit int64) {
	op := s.op()
	s.add(at, history.Event{Source: "backend", Phase: history.Invoke, Op: op, Node: testNode, Key: "get"}, history.Backend{})
	s.add(at+0.005, history.Event{Source: "backend", Phase: history.OK, Op: op, Node: testNode, Key: "get"}, history.Backend{Quota: &history.Quota{Limit: limit}, Status: 200})
}

// csi writes one side of a call that takes `took` seconds; a completion of phase "" is left out.
func (s *script) csi(at, took float64, source, op, key string, side history.Side, phase history.Phase, in, out history.CSICall) {
	in.Side, out.Side, in.Driver, out.Driver = side, side, testDriver, testDriver
	node := testNode
	if source != "csi/n1" {
		node = ""
	}
	s.add(at, history.Event{Source: source, Phase: history.Invoke, Op: op, Node: node, Key: key}, in)
	if phase != "" {
		s.add(at+took, history.Event{Source: source, Phase: phase, Op: op, Node: node, Key: key}, out)
	}
}

// info writes a NodeGetInfo answered with n on both sides.
func (s *script) info(at float64, n int64) {
	op := s.op()
	out := history.CSICall{NodeID: testNode, MaxVolumes: &n}
	s.csi(at, 0.04, "csi/n1", op, "NodeGetInfo", history.ClientSide, history.OK, history.CSICall{}, out)
	s.csi(at+0.01, 0.02, "csi/n1", op, "NodeGetInfo", history.DriverSide, history.OK, history.CSICall{}, out)
}

// infoFails writes a NodeGetInfo that failed; the driver never saw it when reached is false.
func (s *script) infoFails(at float64, code uint32, reached bool) {
	op := s.op()
	out := history.CSICall{Code: code, Message: "no quota", Injected: !reached}
	s.csi(at, 0.04, "csi/n1", op, "NodeGetInfo", history.ClientSide, history.Fail, history.CSICall{}, out)
	if reached {
		s.csi(at+0.01, 0.02, "csi/n1", op, "NodeGetInfo", history.DriverSide, history.Fail, history.CSICall{}, out)
	}
}

// register writes the registration socket's calls from at to at+0.5; what happens between is the caller's.
func (s *script) register(at float64, registered bool, message string) {
	s.csi(at, 0.01, "csi/n1", s.op(), "GetInfo", history.ClientSide, history.OK, history.CSICall{}, history.CSICall{})
	body := history.CSICall{Registered: &registered, Message: message}
	s.csi(at+0.5, 0.01, "csi/n1", s.op(), "NotifyRegistrationStatus", history.ClientSide, history.OK, body, body)
}

func (s *script) period(at float64, rev int64, n *int64) {
	s.add(at, history.Event{Source: "api/csidrivers", Rev: rev, Key: testDriver}, history.CSIDriver{Object: history.Object{Type: "MODIFIED"}, PeriodSeconds: n})
}

func (s *script) component(at float64, id, state string) {
	s.add(at, history.Event{Source: "component/runner", Key: id}, history.Component{State: state})
}

func (s *script) beat(at float64, gap time.Duration) {
	s.add(at, history.Event{Source: "beat/runner"}, history.Beat{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(seconds(at)), MaxGap: history.Duration(gap)})
}

// lose says that a source lost events, as Merge does.
func (s *script) lose(at float64, source string) {
	s.add(at, history.Event{Source: history.SourceMerge, Phase: history.Gap, Key: source}, history.GapReason{Reason: "it has no close record"})
}

func entries(n int32) []history.CSINodeDriver {
	d := history.CSINodeDriver{Name: testDriver, NodeID: testNode}
	if n > 0 {
		d.Count = &n
	}
	return []history.CSINodeDriver{d}
}

// watched writes a CSINode revision as the watch shows it.
func (s *script) watched(at float64, rev int64, kind string, drivers []history.CSINodeDriver) {
	s.add(at, history.Event{Source: "api/csinodes", Rev: rev, Key: testNode}, history.CSINode{Object: history.Object{Type: kind}, Drivers: drivers})
}

// writes adds a CSINode write by user, in the audit log and a little later in the watch.
func (s *script) writes(at float64, rev int64, user, verb, requestVersion string, drivers []history.CSINodeDriver) {
	s.audited(at, rev, user, verb, requestVersion, drivers)
	kind := map[string]string{"create": "ADDED", "delete": "DELETED"}[verb]
	s.watched(at+0.1, rev, cmp.Or(kind, "MODIFIED"), drivers)
}

func (s *script) audited(at float64, rev int64, user, verb, requestVersion string, drivers []history.CSINodeDriver) {
	op := s.op()
	body := history.Audit{User: user, Verb: verb, Resource: "csinodes", Name: testNode, RequestVersion: requestVersion, Drivers: drivers}
	s.add(at-0.005, history.Event{Source: "audit", Phase: history.Invoke, Op: op, Key: "csinodes/n1"}, body)
	body.Status = 200
	if verb == "delete" {
		rev, body.Drivers = 0, nil
	}
	s.add(at, history.Event{Source: "audit", Phase: history.OK, Op: op, Rev: rev, Key: "csinodes/n1"}, body)
}

// attach writes one attach request and its answer.
func (s *script) attach(at float64, volume string, b history.Backend) {
	op := s.op()
	b.Volume = volume
	s.add(at, history.Event{Source: "backend", Phase: history.Invoke, Op: op, Node: testNode, Key: "attach"}, history.Backend{Volume: volume})
	phase := history.Fail
	if b.Decision == history.Accepted {
		phase = history.OK
	}
	s.add(at+0.005, history.Event{Source: "backend", Phase: phase, Op: op, Node: testNode, Key: "attach"}, b)
}

func accepted(attached, limit int64) history.Backend {
	return history.Backend{Decision: history.Accepted, Status: 200, Quota: &history.Quota{Attached: attached, Limit: limit}}
}

func refused(reason string) history.Backend {
	return history.Backend{Decision: history.Refused, Reason: reason, Status: 409, Quota: &history.Quota{Attached: 2, Limit: 2}}
}

// create writes a CreateVolume at the driver that is answered took seconds later, volume with what is named.
func (s *script) create(at, took float64, name string, code uint32) {
	s.csi(at, took, "csi/controller/d", s.op(), "CreateVolume", history.DriverSide, phaseOf(code),
		history.CSICall{Name: name}, history.CSICall{Name: name, Volume: map[bool]string{true: name}[code == 0], Code: code, Message: "make"})
}

// remove writes a DeleteVolume.
func (s *script) remove(at float64, volume string, code uint32) {
	s.csi(at, 0.1, "csi/controller/d", s.op(), "DeleteVolume", history.DriverSide, phaseOf(code),
		history.CSICall{Volume: volume}, history.CSICall{Volume: volume, Code: code, Message: "delete"})
}

// phaseOf is how a call ends with a code: nobody knows what became of one that came to its deadline.
func phaseOf(code uint32) history.Phase {
	switch code {
	case 0:
		return history.OK
	case 4:
		return history.Unknown
	}
	return history.Fail
}

// stored writes a create or a delete in the backend.
func (s *script) stored(at float64, operation, volume string, done bool) {
	op, b, phase := s.op(), history.Backend{Volume: volume, Decision: history.Accepted, Status: 200}, history.OK
	if !done {
		b, phase = history.Backend{Volume: volume, Reason: history.ReasonUnavailable, Fault: "error", Status: 503}, history.Fail
	}
	s.add(at, history.Event{Source: "backend", Phase: history.Invoke, Op: op, Key: operation}, history.Backend{Volume: volume})
	s.add(at+0.005, history.Event{Source: "backend", Phase: phase, Op: op, Key: operation}, b)
}

// publish writes a ControllerPublishVolume at the driver from at to at+0.1.
func (s *script) publish(at float64, volume string, code uint32) {
	phase := history.OK
	if code != 0 {
		phase = history.Fail
	}
	s.csi(at, 0.1, "csi/controller/d", s.op(), "ControllerPublishVolume", history.DriverSide, phase,
		history.CSICall{Volume: volume, NodeID: testNode}, history.CSICall{Volume: volume, NodeID: testNode, Code: code, Message: "attach"})
}

func (s *script) detach(at float64, volume string) {
	op := s.op()
	s.add(at, history.Event{Source: "backend", Phase: history.Invoke, Op: op, Node: testNode, Key: "detach"}, history.Backend{Volume: volume})
	s.add(at+0.005, history.Event{Source: "backend", Phase: history.OK, Op: op, Node: testNode, Key: "detach"}, history.Backend{Volume: volume, Decision: history.Accepted, Status: 200})
}

// pod writes a pod with one claim "c0" that is bound to volume "pv0".
func (s *script) pod(at float64, rev int64, phase, reason string) {
	s.add(at, history.Event{Source: "api/pods", Rev: rev, Key: "ns/p0", Node: testNode}, history.Pod{
		Object: history.Object{Type: "MODIFIED", UID: "uid-p0"}, NodeName: testNode, PodPhase: phase, Reason: reason, Claims: []string{"c0"},
	})
}

func (s *script) claim(at float64, rev int64) {
	s.add(at, history.Event{Source: "api/persistentvolumeclaims", Rev: rev, Key: "ns/c0"}, history.PVC{Object: history.Object{Type: "ADDED"}, VolumeName: "pv0"})
}

func (s *script) va(at float64, rev int64, code int32) {
	b := history.VolumeAttachment{Object: history.Object{Type: "MODIFIED"}, Attacher: testDriver, NodeName: testNode, PVName: "pv0"}
	if code > 0 {
		b.AttachCode, b.AttachError = &code, "attach"
	}
	s.add(at, history.Event{Source: "api/volumeattachments", Rev: rev, Key: "va0", Node: testNode}, b)
}
