package invariants

import (
	"fmt"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var errorCodeFaithful = Invariant{
	Name: "error-code-faithful",
	Claim: "a VolumeAttachment's attachError.errorCode is the gRPC code that the attacher's client saw, and absent for failures that are not gRPC's, " +
		"where attacher and API server support it; detachError never carries one",
	Source:   "external-attacher pkg/controller/csi_handler.go saveAttachError, saveDetachError; KEP-4876",
	Boundary: history.Attacher,
	Needs:    []string{history.PrefixAPI + "volumeattachments", history.PrefixCSI + "controller/", history.PrefixAPI + "persistentvolumes"},
	New: func(p Params) Checker {
		return newChecker(p, &codes{t: tally{}, of: map[place][]*model.Call{}, attached: map[string]*attachment{}})
	},
}

// place is what an attacher publishes where.
type place struct{ driver, node, handle string }

// attachment is the last error seen of one VolumeAttachment.
type attachment struct {
	code    *int32
	message string
	detach  string
}

type codes struct {
	t        tally
	of       map[place][]*model.Call // the last that failed, oldest first
	attached map[string]*attachment
	atOnce
}

func (r *codes) observe(m *model.Model, s *model.Step) {
	switch b := s.Body.(type) {
	case *history.CSICall:
		if c := s.Call; c.Method == model.Publish && c.Side == history.ClientSide && c.Volume != "" {
			r.call(s, c)
		}
	case *history.VolumeAttachment:
		r.attachment(m, s, b)
	}
}

func (r *codes) call(s *model.Step, c *model.Call) {
	at := place{c.Driver, c.Node, c.Volume}
	switch {
	case s.Phase == history.Invoke:
	case c.OK():
		delete(r.of, at)
	default:
		all := append(r.of[at], c)
		r.of[at] = all[max(0, len(all)-4):]
	}
}

func (r *codes) attachment(m *model.Model, s *model.Step, b *history.VolumeAttachment) {
	was := r.attached[s.Key]
	if was == nil {
		was = &attachment{}
		r.attached[s.Key] = was
	}
	at := place{b.Attacher, b.NodeName, m.Handle(b.PVName)}
	if b.Type == "DELETED" {
		delete(r.attached, s.Key)
		delete(r.of, at)
		return
	}
	if b.DetachError != was.detach {
		was.detach = b.DetachError
		r.detach(m, s, b)
	}
	if b.AttachError == was.message && model.SameCount(b.AttachCode, was.code) {
		return
	}
	was.message, was.code = b.AttachError, b.AttachCode
	if b.AttachError != "" && b.PVName != "" && at.handle != "" && m.SetsCodes(b.Attacher, s.At) && m.StoresCodes(s.At) {
		r.attach(m, s, b, at)
	}
}

func (r *codes) detach(m *model.Model, s *model.Step, b *history.VolumeAttachment) {
	switch {
	case b.DetachCode != nil:
		r.t.violated(b.Attacher, finding{at: s.At, scope: s.Scope, evidence: []history.Ref{s.Ref()},
			detail: fmt.Sprintf("want no errorCode in the detachError of VolumeAttachment %q, got %d at %s", s.Key, *b.DetachCode, m.Since(s.At))})
	case b.DetachError != "":
		r.t.held(b.Attacher, s.Scope)
	}
}

// attach compares an attach error with the calls that it may tell of. The newest may have come after the error was written: then the one before is meant.
func (r *codes) attach(m *model.Model, s *model.Step, b *history.VolumeAttachment, at place) {
	grpc := strings.HasPrefix(b.AttachError, "rpc error: code = ")
	var told []*model.Call
	for _, c := range r.of[at] {
		if c.Done <= s.At && strings.Contains(b.AttachError, c.Message) {
			told = append(told, c)
		}
	}
	f := finding{at: s.At, scope: s.Scope, evidence: []history.Ref{s.Ref()}}
	switch {
	case !grpc && b.AttachCode == nil:
		r.t.held(b.Attacher, s.Scope)
	case !grpc:
		f.detail = fmt.Sprintf("want no errorCode in the attachError of VolumeAttachment %q, whose failure %q is none of gRPC, got %d at %s",
			s.Key, b.AttachError, *b.AttachCode, m.Since(s.At))
		r.t.violated(b.Attacher, f)
	case len(told) == 0: // the attacher's client gave up without a call, which nobody but it saw
	default:
		r.compare(m, s, b, told, f)
	}
}

func (r *codes) compare(m *model.Model, s *model.Step, b *history.VolumeAttachment, told []*model.Call, f finding) {
	last := told[len(told)-1]
	for _, c := range told {
		// Where the connection was lost, the client's own word is not recorded.
		if c.Answered == history.Unknown && c.Code != codeDeadlineExceeded {
			return
		}
		if b.AttachCode != nil && int64(*b.AttachCode) == int64(c.Code) && (c == last || c.Done >= s.At-writeWithin) {
			r.t.held(b.Attacher, s.Scope)
			return
		}
	}
	got := "none"
	if b.AttachCode != nil {
		got = fmt.Sprint(*b.AttachCode)
	}
	f.evidence = append(f.evidence, last.End)
	f.detail = fmt.Sprintf("want errorCode %d in the attachError of VolumeAttachment %q, as ControllerPublishVolume answered at %s, got %s at %s",
		last.Code, s.Key, m.Since(last.Done), got, m.Since(s.At))
	r.t.missing(b.Attacher, f, history.PrefixCSI+"controller/"+b.Attacher)
}

func (r *codes) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Attacher) }
