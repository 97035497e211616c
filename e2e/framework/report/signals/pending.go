package signals

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// Reason is why pods waited. A pod counts once under each reason that it ever had.
type Reason struct {
	// Reason is the scheduler's, such as "exceed max volume count", "attach failed: ResourceExhausted" for a pod on its node, or the reason of a pod that
	// the kubelet rejected.
	Reason string `json:"reason" yaml:"reason"`
	Pods   int    `json:"pods" yaml:"pods"`
}

// pending maps a reason to the UIDs of the pods that had it, with when each had it last.
type pending map[string]map[string]time.Duration

func (p pending) add(reason, uid string, at time.Duration) {
	if p[reason] == nil {
		p[reason] = map[string]time.Duration{}
	}
	p[reason][uid] = at
}

func (p pending) pod(e history.Event, b *history.Pod) {
	uid := cmp.Or(b.UID, e.Key)
	if b.PodPhase == "Failed" && b.Reason != "" {
		p.add("rejected: "+b.Reason, uid, e.At)
	}
	if b.PodPhase != "Pending" || b.Type == "DELETED" {
		return
	}
	for _, reason := range unschedulable(b.Unschedulable) {
		p.add(reason, uid, e.At)
	}
}

// attachment counts the pods that wait on a node for an attach that failed.
func (p pending) attachment(m *model.Model, e history.Event, b *history.VolumeAttachment) {
	if b.AttachError == "" && b.AttachCode == nil || b.Attached || b.Type == "DELETED" {
		return
	}
	reason := "attach failed: no code"
	if b.AttachCode != nil {
		reason = "attach failed: " + CodeName(uint32(*b.AttachCode))
	}
	for _, pod := range m.PodsOn(b.NodeName, b.PVName) {
		if pod.PodPhase == "Pending" {
			p.add(reason, cmp.Or(pod.UID, pod.Name), e.At)
		}
	}
}

// nodes is one part of the scheduler's sum: "2 node(s) exceed max volume count", "1 Too many pods".
var nodes = regexp.MustCompile(`^\d+ (?:node\(s\) )?(.+)$`)

// unschedulable splits the scheduler's message: "0/3 nodes are available: 1 node(s) exceed max volume count, 2 node(s) were unschedulable. preemption: ...".
// A message of another form is its own reason.
func unschedulable(message string) (out []string) {
	_, sum, found := strings.Cut(message, " nodes are available: ")
	if !found {
		if message != "" {
			out = append(out, message)
		}
		return out
	}
	sum, _, _ = strings.Cut(sum, ". ")
	for part := range strings.SplitSeq(strings.TrimSuffix(sum, "."), ", ") {
		if m := nodes.FindStringSubmatch(part); m != nil {
			out = append(out, m[1])
		} else if n := len(out); n > 0 { // a comma within a reason
			out[n-1] += ", " + part
		} else {
			out = append(out, part)
		}
	}
	return out
}

// unbound is what the scheduler says of a pod whose claims have no volume yet (kubernetes pkg/scheduler/framework/plugins/volumebinding). The volumes are
// the run's own to make, a moment after the claims, so it says nothing of the product.
const unbound = "pod has unbound immediate PersistentVolumeClaims"

// reasons returns why pods waited from a time on, and how many waited for the run to make their volumes.
func (p pending) reasons(from time.Duration) (out []Reason, early int) {
	for reason, pods := range p {
		n := 0
		for _, last := range pods {
			if last >= from {
				n++
			}
		}
		switch {
		case n == 0:
		case reason == unbound:
			early = n
		default:
			out = append(out, Reason{Reason: reason, Pods: n})
		}
	}
	slices.SortFunc(out, func(a, b Reason) int { return cmp.Or(b.Pods-a.Pods, strings.Compare(a.Reason, b.Reason)) })
	return out, early
}

// Failures are failed attach calls of one class.
type Failures struct {
	Code uint32 `json:"code" yaml:"code"`
	// Name is the code's name, such as "ResourceExhausted".
	Name  string `json:"name" yaml:"name"`
	Calls int    `json:"calls" yaml:"calls"`
}

type opKey struct{ source, op string }

type failure struct {
	code   uint32
	client bool
	at     time.Duration
}

// attachFailures are the failed publish calls. Both sides of the gate tell of a call; what the attacher got counts, where it was recorded.
type attachFailures map[opKey]failure

func (a attachFailures) observe(s model.Step) {
	if s.Call == nil || s.Call.Method != model.Publish || s.Phase == history.Invoke {
		return
	}
	key := opKey{s.Source, cmp.Or(s.Op, s.Ref().String())}
	client := s.Call.Side == history.ClientSide
	seen, known := a[key]
	switch {
	case s.Call.Failed() && (client || !known || !seen.client):
		a[key] = failure{code: s.Call.Code, client: client, at: s.At}
	case client:
		delete(a, key)
	}
}

func (a attachFailures) byCode(from time.Duration) []Failures {
	calls := map[uint32]int{}
	for _, f := range a {
		if f.at >= from {
			calls[f.code]++
		}
	}
	var out []Failures
	for code, n := range calls {
		out = append(out, Failures{Code: code, Name: CodeName(code), Calls: n})
	}
	slices.SortFunc(out, func(a, b Failures) int { return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Code, b.Code)) })
	return out
}

// codeNames are gRPC's, by number. A call that failed with code 0 has no answer.
var codeNames = []string{
	"no answer", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied", "ResourceExhausted",
	"FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated",
}

// CodeName is the name of a gRPC code; "no answer" for the 0 of a failed call.
func CodeName(code uint32) string {
	if int64(code) < int64(len(codeNames)) {
		return codeNames[code]
	}
	return fmt.Sprintf("code %d", code)
}
