package drivercheck

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
)

// cleanLimit bounds what is done after the check.
const cleanLimit = 30 * time.Second

// session is one check under way.
type session struct {
	Options
	rec   *recorder
	began time.Time
	calls int

	// own is what this package started itself: backend and processes; nil for a running driver.
	own *own
	// lever changes what the driver sees of its limit.
	lever lever

	nodeSocket, controllerSocket string
	conns                        []*grpc.ClientConn
	identity                     csi.IdentityClient
	node                         csi.NodeClient
	controller                   csi.ControllerClient

	name, version, nodeID string
	topology              []string // keys
	caps                  map[csi.ControllerServiceCapability_RPC_Type]bool
	// attaches says whether the driver serves ControllerPublishVolume.
	attaches bool
	answers  []answer
	restarts int
	// raised is the limit that the driver is to rise to, from an answer of raisedFrom; zero before it was set.
	raised     limits
	raisedFrom int64
	// queriesBefore is what the backend had counted when the check began.
	queriesBefore int64

	made     []string // volumes that CreateVolume made
	volumes  []string
	attached map[string]bool
	missing  string
}

// answer is one answer of NodeGetInfo.
type answer struct {
	asked, came time.Duration // since the session began
	count       int64
}

func (s *session) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * s.Scale) }

func (s *session) since() time.Duration { return time.Since(s.began) }

// say tells of progress.
func (s *session) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Out, "%6.1fs  %s\n", s.since().Seconds(), fmt.Sprintf(format, args...)) // progress is not worth failing for
}

// figures are what the driver declares; false where nothing is known.
func (s *session) figures() (drivers.Figures, bool) {
	if s.Definition == nil {
		return drivers.Figures{}, false
	}
	return s.Definition.Figures, true
}

// undeclaredAge is taken for the cache age of a driver that declares none: Kubernetes asks no more often than every 10 s.
const undeclaredAge = 10 * time.Second

// cacheAge is how long a change may take to be answered.
func (s *session) cacheAge() time.Duration {
	if f, known := s.figures(); known {
		return f.CacheAge
	}
	return undeclaredAge
}

// open starts or finds the driver and what its limit comes from.
func (s *session) open(ctx context.Context) (err error) {
	s.attached = map[string]bool{}
	if s.Socket == "" {
		if err := s.start(ctx); err != nil {
			return err
		}
	} else {
		if s.nodeSocket, err = unixPath("socket", s.Socket); err != nil {
			return err
		}
		s.controllerSocket = s.nodeSocket
		if s.Controller != "" {
			if s.controllerSocket, err = unixPath("controller", s.Controller); err != nil {
				return err
			}
		}
	}
	if err := s.dial(ctx); err != nil {
		return err
	}
	if s.own != nil {
		s.lever = s.own.lever
		return nil
	}
	switch {
	case s.Quota != nil:
		s.lever = &backendLever{control: s.Quota}
	case s.Definition != nil && s.Definition.Limit == drivers.LimitOwn:
		s.lever = &causeLever{def: s.Definition}
	}
	return nil
}

// dial connects to the driver's sockets.
func (s *session) dial(ctx context.Context) error {
	conn, err := s.connect(ctx, s.nodeSocket)
	if err != nil {
		return err
	}
	s.conns = append(s.conns, conn)
	s.identity, s.node, s.controller = csi.NewIdentityClient(conn), csi.NewNodeClient(conn), csi.NewControllerClient(conn)
	if s.controllerSocket == s.nodeSocket {
		return nil
	}
	if conn, err = s.connect(ctx, s.controllerSocket); err != nil {
		return err
	}
	s.conns = append(s.conns, conn)
	s.controller = csi.NewControllerClient(conn)
	return nil
}

// connect reaches one socket. What was started here as a driver and speaks no gRPC is the driver's failure, and nobody's choice of a socket.
func (s *session) connect(ctx context.Context, path string) (*grpc.ClientConn, error) {
	conn, err := connect(ctx, path, s.scaled(connectLimit))
	var env *cluster.EnvironmentError
	if s.own == nil || ctx.Err() != nil || !errors.As(err, &env) {
		return conn, err
	}
	s.awaitDeath()
	p := s.own.processes[0]
	if path != s.nodeSocket {
		p = s.own.processes[len(s.own.processes)-1]
	}
	return nil, s.startFailure(p, fmt.Errorf("it is no CSI driver: %s: %w; is it the program, and the mode of it, that serves CSI on ${ENDPOINT}?", env.Op, env.Err))
}

// close puts back what was changed, and ends what was started.
func (s *session) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.scaled(cleanLimit))
	defer cancel()
	var errs []error
	if s.lever != nil && s.nodeID != "" {
		errs = append(errs, s.lever.heal(ctx, s.nodeID))
	}
	if s.controller != nil && s.rec.stopped == "" {
		for v := range s.attached {
			_, _ = s.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: v, NodeId: s.nodeID}) // judged before, as far as it is
		}
		for _, v := range s.made {
			if _, err := s.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v}); err != nil {
				errs = append(errs, fmt.Errorf("delete volume %q, which was made for the check: %w", v, err))
			}
		}
	}
	if s.lever != nil && s.nodeID != "" {
		errs = append(errs, s.lever.restore(ctx, s.nodeID))
	}
	for _, c := range s.conns {
		errs = append(errs, c.Close())
	}
	if s.own != nil {
		errs = append(errs, s.own.close())
	}
	return cluster.Environment("put back what the check changed", errors.Join(errs...))
}

// tail is the end of the driver's log, where this package started it.
func (s *session) tail() string {
	if s.own == nil {
		return ""
	}
	return s.own.tail()
}

// ask asks for the limit. It reports only what keeps an answer from being one.
func (s *session) ask(ctx context.Context) (*csi.NodeGetInfoResponse, codes.Code, error) {
	asked := s.since()
	info, st, err := call(ctx, s, "NodeGetInfo", s.node.NodeGetInfo, &csi.NodeGetInfoRequest{})
	if err == nil && st.Code() == codes.OK {
		s.answers = append(s.answers, answer{asked: asked, came: s.since(), count: info.MaxVolumesPerNode})
	}
	return info, st.Code(), err
}

// last is the last limit that was answered; 0 before there was any.
func (s *session) last() int64 {
	if len(s.answers) == 0 {
		return 0
	}
	return s.answers[len(s.answers)-1].count
}

// unused is an id that nothing has.
func unused(what string) (string, error) {
	b := make([]byte, 4)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return "headroom-" + what + "-" + hex.EncodeToString(b), nil
}

// pause waits, unless the run ends before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keys are the sorted keys of a topology.
func keys(t *csi.Topology) (out []string) {
	for k := range t.GetSegments() {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
