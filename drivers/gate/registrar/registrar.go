// Package registrar registers a CSI driver with the kubelet: what node-driver-registrar does, in the process of its caller, on the record.
//
// Contract: while a Registrar serves, its socket in the kubelet's plugins_registry is there; the kubelet finds it, asks GetInfo, connects to
// the endpoint and reports back. Removing the socket is what deregisters, and Close does that. It does not look at whether the driver works:
// the kubelet finds out, and its verdict is what Status tells.
package registrar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"headroom/drivers/gate"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/unixsocket"
)

// versions are the CSI versions that the kubelet is told; it takes the major one.
var versions = []string{"1.0.0"}

// Options describe one registration.
type Options struct {
	// Socket is the path in plugins_registry to serve on. A socket that is there already is replaced, which the kubelet takes as
	// deregistration and registration.
	Socket     string
	DriverName string
	// Endpoint is the path of the socket that the kubelet shall connect to: the gate's.
	Endpoint string
	Node     string
	// History may be the gate's writer; nil discards.
	History *history.Writer
}

// ErrNotAsked is wrapped by Wait's error when the kubelet never asked for the driver's info. The driver has no part in that.
var ErrNotAsked = errors.New("the kubelet never asked the registrar")

// Status is what the kubelet said last.
type Status struct {
	// Asked says that the kubelet asked for the driver's info.
	Asked bool
	// Notified is false as long as the kubelet has said nothing.
	Notified   bool
	Registered bool
	// Error is the kubelet's reason when it did not register the driver.
	Error string
}

// Registrar is one registration.
type Registrar struct {
	registration.UnimplementedRegistrationServer
	opts     Options
	listener net.Listener
	server   *grpc.Server

	mu      sync.Mutex
	status  Status
	changed chan struct{} // closed and replaced at each notification
	gone    sync.Once     // the socket's removal is told once
}

// New takes the socket; the kubelet may see it at once and waits for Serve. The caller must Close the registrar.
func New(o Options) (*Registrar, error) {
	l, err := unixsocket.Replace(o.Socket)
	if err != nil {
		return nil, fmt.Errorf("registrar of driver %q: %w", o.DriverName, err)
	}
	r := &Registrar{opts: o, listener: l, server: grpc.NewServer(), changed: make(chan struct{})}
	registration.RegisterRegistrationServer(r.server, r)
	return r, nil
}

// Serve answers the kubelet until ctx ends or the registrar is closed.
func (r *Registrar) Serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, r.server.Stop)()
	err := r.server.Serve(r.listener)
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Close stops serving and removes the socket, which deregisters the driver; the history is told just before. Closing twice is no error.
func (r *Registrar) Close() error {
	r.gone.Do(func() {
		r.opts.History.Write(history.Event{
			Phase: history.Observed, Node: r.opts.Node, Key: "SocketRemoved",
			Body: history.Encode(history.CSICall{Side: history.ClientSide, Driver: r.opts.DriverName}),
		})
	})
	r.server.Stop()
	if err := r.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Status returns what the kubelet said last.
func (r *Registrar) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Wait returns when the kubelet has registered the driver. The kubelet tries again after a failure, so an error comes only when ctx ends; it
// then names the last failure.
func (r *Registrar) Wait(ctx context.Context) error {
	for {
		r.mu.Lock()
		now, changed := r.status, r.changed
		r.mu.Unlock()
		if now.Registered {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			last := errors.New("the kubelet asked, and said nothing since")
			switch {
			case now.Notified:
				last = errors.New("last error: " + now.Error)
			case !now.Asked:
				last = ErrNotAsked
			}
			return fmt.Errorf("wait for registration of driver %q on node %q: %w (%w)", r.opts.DriverName, r.opts.Node, ctx.Err(), last)
		}
	}
}

// GetInfo implements registration.RegistrationServer.
func (r *Registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	r.record("GetInfo", history.CSICall{})
	r.mu.Lock()
	r.status.Asked = true
	r.mu.Unlock()
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.opts.DriverName, Endpoint: r.opts.Endpoint, SupportedVersions: versions,
	}, nil
}

// NotifyRegistrationStatus implements registration.RegistrationServer.
func (r *Registrar) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	registered := s.GetPluginRegistered()
	r.record("NotifyRegistrationStatus", history.CSICall{Registered: &registered, Message: s.GetError()})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = Status{Asked: r.status.Asked, Notified: true, Registered: registered, Error: s.GetError()}
	close(r.changed)
	r.changed = make(chan struct{})
	return &registration.RegistrationStatusResponse{}, nil
}

// record writes both ends of a call that is answered here. There is no driver side.
func (r *Registrar) record(key string, body history.CSICall) {
	body.Side, body.Driver = history.ClientSide, r.opts.DriverName
	op := gate.NextOp()
	for _, phase := range []history.Phase{history.Invoke, history.OK} {
		r.opts.History.Write(history.Event{Phase: phase, Op: op, Node: r.opts.Node, Key: key, Body: history.Encode(body)})
	}
}
