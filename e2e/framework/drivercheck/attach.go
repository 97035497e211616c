package drivercheck

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers"
	"headroom/e2e/framework/report"
)

const (
	// leastRoom is what the checks of a changing limit need, mostRoom what is attached at most.
	leastRoom = 4
	mostRoom  = 64
)

// attach fills the node and looks at what the driver does on the way, at the limit, and beyond it.
func (s *session) attach(ctx context.Context) error {
	if !s.attaches {
		return nil
	}
	space, err := s.space(ctx)
	if err != nil {
		return err
	}
	if s.limitless() {
		space = leastRoom // it takes them all
	}
	if space < 1 || space > mostRoom {
		for _, c := range attachCases {
			s.rec.skipped(c, "want a limit of 1 to %d to attach as many, got %d", mostRoom, space)
		}
		return nil
	}
	if err := s.supply(ctx, int(space)+1); err != nil {
		if errors.Is(err, errCannot) {
			for _, c := range attachCases {
				s.rec.skipped(c, "%v", err)
			}
			return nil
		}
		return err
	}
	if err := s.arguments(ctx); err != nil {
		return err
	}
	if ok, err := s.firstVolume(ctx); !ok {
		return err
	}
	if err := s.others(ctx); err != nil {
		return err
	}
	return s.fill(ctx, int(space))
}

// space is how many volumes can be attached now: by the backend's word, else by the driver's.
func (s *session) space(ctx context.Context) (int64, error) {
	if s.lever != nil {
		r, err := s.lever.look(ctx, s.nodeID)
		if err == nil {
			if n := r.usable() - r.attached; n < leastRoom || n > mostRoom {
				return 0, badInput(fmt.Sprintf("headroom quota set %s --limit %d", s.nodeID, r.foreign+r.attached+ownLimit),
					"node %q: want room for %d to %d volumes, got %d (limit %d, foreign %d, attached %d)", s.nodeID, leastRoom, mostRoom, n, r.limit, r.foreign, r.attached)
			}
			return r.usable() - r.attached, nil
		}
		if !errors.Is(err, errCannot) {
			return 0, err
		}
	}
	return s.last(), nil
}

// supply gets volumes from wherever there are some; errCannot when there is no way.
func (s *session) supply(ctx context.Context, n int) (err error) {
	var known drivers.Volumes
	if s.Definition != nil {
		known = s.Definition.Volumes
	}
	if s.missing = known.Missing; s.missing == "" {
		if s.missing, err = unused("no-such-volume"); err != nil {
			return err
		}
	}
	if given := append(append([]string(nil), s.Volumes...), known.Handles...); len(given) > 0 {
		if len(given) < n {
			return cannot("want %d volumes, one more than can be attached, got %d: name more with --volume or in volumes.handles", n, len(given))
		}
		s.volumes = given[:n]
		return nil
	}
	for range n {
		id, err := unused("check")
		if err != nil {
			return err
		}
		if err = s.register(ctx, id); errors.Is(err, errCannot) {
			id, err = s.create(ctx, id, known.Parameters)
		}
		if err != nil {
			return err
		}
		s.volumes = append(s.volumes, id)
	}
	return nil
}

// nowhere is the id of a node that does not exist.
func (s *session) nowhere() (string, error) {
	if s.Definition != nil && s.Definition.Volumes.MissingNode != "" {
		return s.Definition.Volumes.MissingNode, nil
	}
	return unused("no-such-node")
}

// register makes a volume known to the backend.
func (s *session) register(ctx context.Context, id string) error {
	if s.lever == nil {
		return cannot("there is no backend")
	}
	return s.lever.volume(ctx, id)
}

// create makes a volume with CreateVolume.
func (s *session) create(ctx context.Context, name string, parameters map[string]string) (string, error) {
	if !s.caps[csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME] {
		return "", cannot("no volumes to attach: the driver declares no CREATE_DELETE_VOLUME; name some that exist with --volume or in volumes.handles")
	}
	answer, st, err := call(ctx, s, "CreateVolume", s.controller.CreateVolume, &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 20}, VolumeCapabilities: []*csi.VolumeCapability{capability()}, Parameters: parameters,
	})
	if err != nil {
		return "", err
	}
	if st.Code() != codes.OK || answer.GetVolume().GetVolumeId() == "" {
		return "", cannot("no volumes to attach: CreateVolume: %s: %s", st.Code(), st.Message())
	}
	id := answer.Volume.VolumeId
	s.made = append(s.made, id)
	return id, nil
}

// capability is a mounted file system for one node.
func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
}

// request is an attach of a volume to the node.
func (s *session) request(volume string) *csi.ControllerPublishVolumeRequest {
	req := &csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: s.nodeID, VolumeCapability: capability()}
	if s.Definition != nil {
		req.VolumeContext = s.Definition.Volumes.Context
	}
	return req
}

// publish attaches.
func (s *session) publish(ctx context.Context, req *csi.ControllerPublishVolumeRequest) (*status.Status, error) {
	_, st, err := call(ctx, s, "ControllerPublishVolume", s.controller.ControllerPublishVolume, req)
	if err == nil && st.Code() == codes.OK && req.VolumeId != "" && req.NodeId == s.nodeID {
		s.attached[req.VolumeId] = true
	}
	return st, err
}

// unpublish detaches.
func (s *session) unpublish(ctx context.Context, volume, node string) (*status.Status, error) {
	_, st, err := call(ctx, s, "ControllerUnpublishVolume", s.controller.ControllerUnpublishVolume, &csi.ControllerUnpublishVolumeRequest{VolumeId: volume, NodeId: node})
	if err == nil && st.Code() == codes.OK {
		delete(s.attached, volume)
	}
	return st, err
}

// want judges a code.
func (s *session) want(c caseID, want codes.Code, got *status.Status) bool {
	if got.Code() == want {
		s.rec.held(c, "%s", code(want))
		return true
	}
	s.rec.violated(c, "want %s, got %s%s", code(want), code(got.Code()), words(got))
	return false
}

// code is a gRPC code as the CSI specification writes it.
func code(c codes.Code) string { return fmt.Sprintf("%d %s", c, c) }

// words are a status's message, behind a colon.
func words(st *status.Status) string {
	if st.Message() == "" {
		return ""
	}
	return ": " + st.Message()
}

// arguments leaves out what an attach must have.
func (s *session) arguments(ctx context.Context) error {
	for c, strip := range map[caseID]func(*csi.ControllerPublishVolumeRequest){
		caseNoVolumeID:   func(r *csi.ControllerPublishVolumeRequest) { r.VolumeId = "" },
		caseNoNodeID:     func(r *csi.ControllerPublishVolumeRequest) { r.NodeId = "" },
		caseNoCapability: func(r *csi.ControllerPublishVolumeRequest) { r.VolumeCapability = nil },
	} {
		req := s.request(s.volumes[0])
		strip(req)
		st, err := s.publish(ctx, req)
		if err != nil {
			return err
		}
		s.want(c, codes.InvalidArgument, st)
	}
	if s.attached[s.volumes[0]] { // attached by mistake; it must not count
		_, err := s.unpublish(ctx, s.volumes[0], s.nodeID)
		return err
	}
	return nil
}

// firstVolume attaches the first volume, and again. It reports whether attaching works at all.
func (s *session) firstVolume(ctx context.Context) (bool, error) {
	before, known, err := s.taken(ctx)
	if err != nil {
		return false, err
	}
	volume := s.volumes[0]
	st, err := s.publish(ctx, s.request(volume))
	if err != nil {
		return false, err
	}
	if !s.want(caseFirst, codes.OK, st) {
		for _, c := range attachCases {
			if s.rec.has(c) == "" {
				s.rec.inconclusive(c, "the first volume could not be attached")
			}
		}
		return false, nil
	}
	if st, err = s.publish(ctx, s.request(volume)); err != nil {
		return false, err
	}
	if !s.want(caseTwice, codes.OK, st) || !known {
		return true, nil // without a backend a second slot shows when the node is filled
	}
	after, _, err := s.taken(ctx)
	if err != nil {
		return false, err
	}
	if after == before+1 {
		return true, nil
	}
	s.rec.violated(caseTwice, "want 1 slot for a volume attached twice, got %d", after-before)
	// Attached anew, once, so that the rest is judged for itself.
	if _, err := s.unpublish(ctx, volume, s.nodeID); err != nil {
		return false, err
	}
	_, err = s.publish(ctx, s.request(volume))
	return err == nil, err
}

// taken is how many slots of the node the backend counts; known is false where there is none to ask.
func (s *session) taken(ctx context.Context) (n int64, known bool, err error) {
	if s.lever == nil {
		return 0, false, nil
	}
	r, err := s.lever.look(ctx, s.nodeID)
	if errors.Is(err, errCannot) {
		return 0, false, nil
	}
	return r.attached, err == nil, err
}

// others tries attaches that fail for causes other than a full node.
func (s *session) others(ctx context.Context) error {
	nowhere, err := s.nowhere()
	if err != nil {
		return err
	}
	requests := map[caseID]*csi.ControllerPublishVolumeRequest{caseNoVolume: s.request(s.missing), caseNoNode: s.request(s.volumes[1])}
	requests[caseNoNode].NodeId = nowhere
	want := map[caseID]codes.Code{caseNoVolume: codes.NotFound, caseNoNode: codes.NotFound}
	if s.caps[csi.ControllerServiceCapability_RPC_PUBLISH_READONLY] {
		requests[caseIncompatible], want[caseIncompatible] = s.request(s.volumes[0]), codes.AlreadyExists
		requests[caseIncompatible].Readonly = true
	}
	for c, req := range requests {
		st, err := s.publish(ctx, req)
		if err != nil {
			return err
		}
		s.want(c, want[c], st)
	}
	delete(s.attached, s.missing)
	return nil
}

// fill attaches as many volumes as there is room for, and one more.
func (s *session) fill(ctx context.Context, space int) error {
	for i, volume := range s.volumes[1:space] {
		st, err := s.publish(ctx, s.request(volume))
		if err != nil {
			return err
		}
		if st.Code() != codes.OK {
			s.early(i+1, space, st)
			return nil
		}
	}
	if s.limitless() {
		return s.quiet(ctx)
	}
	s.rec.held(caseFill, "%d", space)
	extra := s.volumes[space]
	st, err := s.publish(ctx, s.request(extra))
	if err != nil {
		return err
	}
	if st.Code() == codes.OK {
		s.rec.violated(caseOver, "want the attach of volume %d refused where %d may be attached, got OK", space+1, space)
		for _, c := range []caseID{caseFull, caseRoom} {
			s.rec.inconclusive(c, "the driver refuses nothing on a full node")
		}
	} else {
		s.rec.held(caseOver, "%s", code(st.Code()))
		s.want(caseFull, codes.ResourceExhausted, st)
	}
	if st, err = s.publish(ctx, s.request(s.volumes[0])); err != nil {
		return err
	}
	s.want(caseWhenFull, codes.OK, st)
	if !s.attached[extra] {
		if err := s.room(ctx, extra); err != nil {
			return err
		}
	}
	return s.quiet(ctx)
}

// room detaches a volume of the full node and attaches the one that was refused: there is room for it only where the driver has let go of the first. Then it
// puts things back.
func (s *session) room(ctx context.Context, refused string) error {
	first := s.volumes[0]
	st, err := s.unpublish(ctx, first, s.nodeID)
	if err != nil {
		return err
	}
	if st.Code() != codes.OK {
		s.rec.violated(caseUnpublish, "want %s, got %s%s", code(codes.OK), code(st.Code()), words(st))
		s.rec.inconclusive(caseRoom, "no volume could be detached")
		return nil
	}
	if st, err = s.publish(ctx, s.request(refused)); err != nil {
		return err
	}
	if st.Code() != codes.OK {
		s.rec.violated(caseRoom, "want a volume attached in the room of one that was detached, got %s%s: the driver leaks what it said it detached", code(st.Code()), words(st))
	} else {
		s.rec.held(caseRoom, "%s", code(st.Code()))
		if _, err = s.unpublish(ctx, refused, s.nodeID); err != nil {
			return err
		}
	}
	_, err = s.publish(ctx, s.request(first))
	return err
}

// early judges an attach that was refused before the node was full.
func (s *session) early(attached, space int, st *status.Status) {
	_, counted := s.lever.(*backendLever)
	if !counted && st.Code() == codes.ResourceExhausted && attached == space-1 && space > 1 {
		// The one slot that is missing may be the one that was taken twice.
		s.rec.violated(caseTwice, "want 1 slot for a volume attached twice: of %d volumes only %d could be attached", space, attached)
	} else {
		s.rec.violated(caseFill, "want %d volumes attached, got %s at volume %d%s", space, code(st.Code()), attached+1, words(st))
	}
	for _, c := range []caseID{caseFill, caseOver, caseFull, caseWhenFull, caseRoom} {
		if s.rec.has(c) == "" {
			s.rec.inconclusive(c, "the node could not be filled")
		}
	}
}

// quiet looks at the limit of a full node, where no change of it will show the same.
func (s *session) quiet(ctx context.Context) error {
	if s.lever != nil {
		return nil
	}
	before := s.last()
	if err := pause(ctx, s.cacheAge()); err != nil {
		return err
	}
	_, got, err := s.ask(ctx)
	if err != nil {
		return err
	}
	if got != codes.OK || s.last() != before {
		s.rec.violated(caseTotal, "want %d with %d volumes attached, as before, got %d (%s)", before, len(s.attached), s.last(), got)
		return nil
	}
	s.rec.held(caseTotal, "%d with %s attached", before, report.Plural(len(s.attached), "volume"))
	return nil
}

// detach takes all volumes off, and tries what is not there.
func (s *session) detach(ctx context.Context) error {
	if !s.attaches || len(s.volumes) == 0 {
		return nil
	}
	for _, volume := range s.volumes {
		c := caseUnpublish
		if !s.attached[volume] {
			c = caseUnpublishAgain
		}
		st, err := s.unpublish(ctx, volume, s.nodeID)
		if err != nil {
			return err
		}
		s.want(c, codes.OK, st)
	}
	nowhere, err := s.nowhere()
	if err != nil {
		return err
	}
	for _, try := range []struct {
		c            caseID
		volume, node string
	}{{caseUnpublishAgain, s.volumes[0], s.nodeID}, {caseUnpublishVolume, s.missing, s.nodeID}, {caseUnpublishNode, s.volumes[0], nowhere}} {
		st, err := s.unpublish(ctx, try.volume, try.node)
		if err != nil {
			return err
		}
		if try.c != caseUnpublishAgain && st.Code() == codes.NotFound {
			s.rec.held(try.c, "%s, which the specification allows; the external-attacher then tries again and the VolumeAttachment stays", code(codes.NotFound))
			continue
		}
		s.want(try.c, codes.OK, st)
	}
	return nil
}
