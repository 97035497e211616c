// Package gate stands between the kubelet or the attacher and a CSI driver: it forwards every call, records it on both sides, and can delay
// it, answer in the driver's place or change the answer.
//
// Contract: whatever is not the subject of a rule passes unchanged, methods that this package does not know included: message bytes,
// metadata, deadline, cancellation, status with details. A driver that is not there is UNAVAILABLE at once, as if the caller had dialled its
// socket itself; each call dials anew, so a driver that came back is reached by the next call. Of each call the history gets, with one Op:
//
//	client invoke      when the call came in
//	driver invoke      before it goes to the driver; absent when the driver was not reached or a rule answered
//	driver completion  what the driver answered
//	client completion  what the client is told
//
// A completion is unknown when the effect is: deadline passed, cancelled, or the connection lost without an answer.
//
// It interprets nothing beyond the fields of history.CSICall, keeps no volumes, and does not register the driver with the kubelet (package
// registrar does). Faults on the socket itself are not its business either.
package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // a client may compress
	"google.golang.org/protobuf/proto"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/unixsocket"
)

// maxMessage bounds one message at 1 GiB, far above what either side accepts: limits are theirs to have.
const maxMessage = 1 << 30

// Options describe one gate.
type Options struct {
	// Listen is the path of the socket that clients connect to. A socket that is there already is replaced.
	Listen string
	// Driver is where the driver serves, unix:///path.
	Driver string
	// Route returns where the driver serves that has the controller of a node, unix:///path. It is asked for calls of the Controller and
	// Identity services, with "" when the call names no node; any live driver may then answer. Where it returns "", Driver is used. Nil
	// routes everything to Driver.
	Route      func(nodeID string) string
	DriverName string
	// Node is the node whose driver this is; "" for a controller, whose calls name the node themselves.
	Node string
	// Rules may be shared between gates; nil means rules of its own.
	Rules *Rules
	// Stage, when not nil, is a part of the driver as far as the history is concerned.
	Stage Stage
	// History has the source "csi/<node>" or "csi/controller/<driver>"; nil discards.
	History *history.Writer
}

// Stage stands between a gate and its driver and gives the driver what it lacks.
type Stage interface {
	// Handles says whether the stage has to do with a method, by its name without the service. All others pass unchanged.
	Handles(method string) bool
	// Handle answers a call whose request has the type of package csi. driver is the way to the driver; it may be asked any number of times. An error is
	// a gRPC status.
	Handle(ctx context.Context, method string, req proto.Message, driver grpc.ClientConnInterface) (proto.Message, error)
}

// Gate is one interposer. It listens from New on and answers from Serve on.
type Gate struct {
	opts     Options
	listener net.Listener
	server   *grpc.Server
}

// New takes the socket. The caller must Close the gate.
func New(o Options) (*Gate, error) {
	if o.Driver == "" && o.Route == nil {
		return nil, fmt.Errorf("gate at %q: want a driver endpoint or a route", o.Listen)
	}
	if o.Driver != "" {
		if _, err := socketPath(o.Driver); err != nil {
			return nil, fmt.Errorf("gate at %q: %w", o.Listen, err)
		}
	}
	l, err := unixsocket.Replace(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("gate of driver %q: %w", o.DriverName, err)
	}
	if o.Rules == nil {
		o.Rules = &Rules{}
	}
	g := &Gate{opts: o, listener: l}
	g.server = grpc.NewServer(
		grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(g.handle), grpc.MaxRecvMsgSize(maxMessage), grpc.WaitForHandlers(true))
	return g, nil
}

// Rules are the gate's rules, to be changed at any time.
func (g *Gate) Rules() *Rules { return g.opts.Rules }

// Serve answers until ctx ends or the gate is closed. Calls under way are then cut off, and completed in the history.
func (g *Gate) Serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, g.server.Stop)()
	err := g.server.Serve(g.listener)
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Close stops the gate and removes its socket. Closing twice is no error.
func (g *Gate) Close() error {
	g.server.Stop()
	if err := g.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// socketPath is the path of a unix:// endpoint.
func socketPath(endpoint string) (string, error) {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok || !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("endpoint %q: want unix:///absolute/path", endpoint)
	}
	return path, nil
}
