package drivercheck

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/report"
)

// judge puts the driver to all tests, in the order that lets what takes time overlap. It ends early when the driver stops answering.
func (s *session) judge(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"who the driver is", s.describe},
		{"what it answers", s.first},
		{"attaching", s.attach},
		{"a limit that changes", s.change},
		{"outages", s.outages},
		{"restart", s.again},
		{"a limit that rises", s.rise},
		{"a limit of -1", s.below},
		{"detaching", s.detach},
		{"figures", s.figure},
	} {
		s.say("%s", step.what)
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	if s.rec.has(caseAnswers) == "" {
		s.rec.held(caseAnswers, "%s", report.Plural(s.calls, "call"))
	}
	return nil
}

// pluginName is the form of a plugin's name.
var pluginName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?$`)

func (s *session) describe(ctx context.Context) error {
	info, st, err := call(ctx, s, "GetPluginInfo", s.identity.GetPluginInfo, &csi.GetPluginInfoRequest{})
	switch {
	case err != nil:
		return err
	case st.Code() == codes.Unimplemented:
		return &cluster.EnvironmentError{Op: "speak CSI on " + s.nodeSocket, Err: st.Err(),
			Remedy: "name the socket that the driver serves CSI on; a registration socket, for one, is another"}
	case st.Code() != codes.OK:
		s.rec.violated(caseName, "GetPluginInfo: want an answer, got %s: %s", st.Code(), st.Message())
	case s.own != nil && s.Definition.Uses("DRIVER_NAME") && info.Name != s.own.name:
		s.rec.violated(caseName, "want the name that it was started with, %q, got %q", s.own.name, info.Name)
	case !pluginName.MatchString(info.Name):
		s.rec.violated(caseName, "want at most 63 letters, digits, dashes and dots, a letter or digit at both ends, got %q", info.Name)
	default:
		s.rec.held(caseName, "%s %s", info.Name, info.VendorVersion)
	}
	s.name, s.version = info.GetName(), info.GetVendorVersion()
	probe, st, err := call(ctx, s, "Probe", s.identity.Probe, &csi.ProbeRequest{})
	switch {
	case err != nil:
		return err
	case st.Code() != codes.OK:
		s.rec.violated(caseProbe, "want an answer, got %s: %s", st.Code(), st.Message())
	case probe.GetReady() != nil && !probe.GetReady().GetValue():
		s.rec.inconclusive(caseProbe, "the driver says that it is not ready: check it once it is")
	default:
		s.rec.held(caseProbe, "ready")
	}
	return s.capabilities(ctx)
}

// capabilities finds out what the driver can do, and leaves out what does not apply to it.
func (s *session) capabilities(ctx context.Context) error {
	plugin, st, err := call(ctx, s, "GetPluginCapabilities", s.identity.GetPluginCapabilities, &csi.GetPluginCapabilitiesRequest{})
	if err != nil {
		return err
	}
	if st.Code() != codes.OK {
		s.rec.violated(caseCapabilities, "GetPluginCapabilities: want an answer, got %s: %s", st.Code(), st.Message())
		return nil
	}
	controller, constraints := false, false
	for _, c := range plugin.Capabilities {
		controller = controller || c.GetService().GetType() == csi.PluginCapability_Service_CONTROLLER_SERVICE
		constraints = constraints || c.GetService().GetType() == csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS
	}
	if !constraints {
		s.rec.held(caseTopology, "none declared") // until NodeGetInfo has one
	}
	if !controller {
		s.rec.held(caseCapabilities, "no Controller service")
		s.attachless("declares no Controller service: write its process under controller in the definition, or give its socket with --controller")
		return nil
	}
	got, st, err := call(ctx, s, "ControllerGetCapabilities", s.controller.ControllerGetCapabilities, &csi.ControllerGetCapabilitiesRequest{})
	switch {
	case err != nil:
		return err
	case st.Code() == codes.Unimplemented && s.own == nil && s.Controller == "":
		s.rec.inconclusive(caseCapabilities, "the driver declares a Controller service, which this socket does not serve: give its socket with --controller")
		for _, c := range attachCases {
			s.rec.skipped(c, "no socket with the Controller service was given (--controller)")
		}
		return nil
	case st.Code() != codes.OK:
		s.rec.violated(caseCapabilities, "ControllerGetCapabilities: want an answer, as a Controller service is declared, got %s: %s", st.Code(), st.Message())
		return nil
	}
	s.caps = map[csi.ControllerServiceCapability_RPC_Type]bool{}
	for _, c := range got.Capabilities {
		s.caps[c.GetRpc().GetType()] = true
	}
	s.rec.held(caseCapabilities, "Controller service with %s", report.Plural(len(s.caps), "capability"))
	if s.attaches = s.caps[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME]; !s.attaches {
		s.attachless("declares no PUBLISH_UNPUBLISH_VOLUME: look for the flag that turns attaching on")
	}
	if !s.caps[csi.ControllerServiceCapability_RPC_PUBLISH_READONLY] {
		s.rec.unfit("the driver declares no PUBLISH_READONLY", caseIncompatible)
	}
	return nil
}

// repeats is how often the same question is asked.
const repeats = 5

// first looks at what NodeGetInfo answers while nothing changes.
func (s *session) first(ctx context.Context) error {
	var infos []*csi.NodeGetInfoResponse
	for range repeats {
		info, code, err := s.ask(ctx)
		switch {
		case err != nil:
			return err
		case code == codes.Unimplemented && len(infos) == 0:
			return &cluster.EnvironmentError{Op: "ask for the limit", Err: errors.New("NodeGetInfo is not implemented on " + s.nodeSocket),
				Remedy: "name the socket of the driver's Node service with --socket, and that of its Controller service with --controller"}
		case code != codes.OK:
			s.rec.violated(caseCount, "NodeGetInfo: want an answer, got %s", code)
			s.rec.stopped = "NodeGetInfo failed"
			return &lostError{fmt.Errorf("NodeGetInfo: %s", code)}
		}
		infos = append(infos, info)
	}
	s.nodeID, s.topology = infos[0].NodeId, keys(infos[0].AccessibleTopology)
	switch n := len(s.nodeID); {
	case n < 1 || n > 256:
		s.rec.violated(caseNodeID, "want 1 to 256 bytes, got %d", n)
		if _, asked := s.lever.(*backendLever); asked {
			s.rec.stopped = "a quota backend knows no such node"
			return &lostError{fmt.Errorf("node id of %d bytes", n)}
		}
	case s.own != nil && s.Definition.Limit == drivers.LimitBackend && s.nodeID != ownNode:
		s.rec.violated(caseNodeID, "want the id that it was started with, %q, got %q", ownNode, s.nodeID)
		s.rec.stopped = "the quota backend knows no such node"
		return &lostError{fmt.Errorf("node id %q", s.nodeID)}
	default:
		s.rec.held(caseNodeID, "%q", s.nodeID)
	}
	if len(s.topology) > 0 && s.rec.has(caseTopology) != "" {
		s.rec.violated(caseTopology, "want no topology without VOLUME_ACCESSIBILITY_CONSTRAINTS, got %q", s.topology)
	} else {
		s.rec.held(caseTopology, "%q", s.topology)
	}
	if err := s.fixed(ctx); err != nil {
		return err
	}
	s.sane(infos[0].MaxVolumesPerNode)
	for _, info := range infos {
		s.same(caseSameID, info)
	}
	return s.unchanged(ctx, infos)
}

// attachless leaves open what attaching shows: a driver that attaches nothing has no attach capacity to judge, and that is no success.
func (s *session) attachless(why string) {
	for _, c := range attachCases {
		s.rec.skipped(c, "the driver attaches nothing, as it %s", why)
	}
}

// fixed leaves out what does not apply to a driver whose limit cannot be changed, or is not known to.
func (s *session) fixed(ctx context.Context) error {
	switch {
	case s.lever == nil && s.Definition != nil && s.Definition.Limit == drivers.LimitFixed:
		s.rec.unfit("its limit is fixed, as the definition says", quotaCases...)
		return nil
	case s.lever == nil && s.gated():
		s.rec.unfit("it has no limit of its own: in a cluster the gate has one in its place", quotaCases...)
		return nil
	case s.lever == nil:
		for _, c := range quotaCases {
			s.rec.skipped(c, "nobody can change the limit: give the control interface of its backend with --quota, or a definition with --driver")
		}
		return nil
	}
	r, err := s.lever.look(ctx, s.nodeID)
	if errors.Is(err, errCannot) {
		return nil
	}
	s.queriesBefore = r.queries
	if n := s.last(); err == nil && n > r.usable() {
		s.rec.violated(caseForeign, "want at most %d (limit %d, %d of them foreign), got %d", r.usable(), r.limit, r.foreign, n)
	}
	return err
}

// gated says whether the limit is the gate's, so that the driver need have none.
func (s *session) gated() bool { return s.Definition != nil && s.Definition.Limit == drivers.LimitGate }

// limitless says whether the driver reports no limit and need not.
func (s *session) limitless() bool { return s.gated() && s.last() == 0 }

// sane judges the first limit.
func (s *session) sane(count int64) {
	limited := s.lever != nil || s.Definition != nil
	switch {
	case s.limitless():
		for _, c := range append([]caseID{caseCount}, limitCases...) { // not by the driver's own word: whether it could keep to a limit is open
			s.rec.skipped(c, "it has no limit of its own, as the definition says")
		}
	case count < 0:
		s.rec.violated(caseCount, "want 1 to %d, got %d: negative values are forbidden", math.MaxInt32, count)
	case count > math.MaxInt32:
		s.rec.violated(caseCount, "want 1 to %d, which CSINode can hold, got %d", math.MaxInt32, count)
	case count == 0 && limited:
		s.rec.violated(caseCount, "want 1 to %d of a driver with a limit, got 0, which means none", math.MaxInt32)
	case count == 0:
		s.rec.inconclusive(caseCount, "0 means that the driver has no limit; whether that is so is not known")
	default:
		s.rec.held(caseCount, "%d", count)
	}
}

// same compares node id and topology with the first ones.
func (s *session) same(c caseID, info *csi.NodeGetInfoResponse) {
	switch {
	case info.NodeId != s.nodeID:
		s.rec.violated(c, "want node id %q as before, got %q", s.nodeID, info.NodeId)
	case !slices.Equal(keys(info.AccessibleTopology), s.topology):
		s.rec.violated(c, "want topology keys %q as before, got %q", s.topology, keys(info.AccessibleTopology))
	default:
		s.rec.held(c, "%q", s.nodeID)
	}
}

// unchanged compares limits that were asked for while nothing changed. One that rises within a known quota is a driver that is recovering.
func (s *session) unchanged(ctx context.Context, infos []*csi.NodeGetInfoResponse) error {
	var counts []int64
	for _, info := range infos {
		counts = append(counts, info.MaxVolumesPerNode)
	}
	steady := slices.Min(counts) == slices.Max(counts)
	if !steady && s.lever != nil && slices.IsSorted(counts) {
		r, err := s.lever.look(ctx, s.nodeID)
		if err != nil && !errors.Is(err, errCannot) {
			return err
		}
		steady = err == nil && slices.Max(counts) <= r.usable()
	}
	if !steady {
		s.rec.violated(caseSameCount, "want one limit while nothing changes, got %v", counts)
		return nil
	}
	s.rec.held(caseSameCount, "%d, %s", counts[0], report.Plural(len(counts), "time"))
	return nil
}
