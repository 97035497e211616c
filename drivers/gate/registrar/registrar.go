// Package registrar registers a CSI driver with the kubelet: what node-driver-registrar does, in the process of its caller, on the record.
//
// Contract: while a Registrar serves, its socket in the kubelet's plugins_registry is there; the kubelet finds it, asks GetInfo, connects to
// the endpoint and reports back. Removing the socket is what deregisters, and Close does that. When the kubelet says that it could not register the
// driver, the socket goes and comes back after a while, as that of a sidecar that ends and whose container is restarted: the kubelet does not try
// again by itself. It does not look at whether the driver works: the kubelet finds out, and its verdict is what Status tells.
package registrar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

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
	// Restart is how long the socket is gone after the n-th refusal in a row, from 0 on; nil means Backoff.
	Restart func(n int) time.Duration
}

// Backoff is how long a kubelet takes to restart a container that ended for the n-th time in a row: at once, then 10 s, doubling up to 5 min.
func Backoff(n int) time.Duration {
	const first, most = 10 * time.Second, 5 * time.Minute
	switch {
	case n <= 0:
		return time.Second
	case n > 5:
		return most
	}
	return min(most, first<<(n-1))
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
	opts   Options
	closed chan struct{}

	mu       sync.Mutex
	listener net.Listener
	server   *grpc.Server
	status   Status
	changed  chan struct{} // closed and replaced at each notification
	refused  int           // refusals in a row
	told     bool          // that the socket is gone
	isClosed bool
}

// New takes the socket; the kubelet may see it at once and waits for Serve. The caller must Close the registrar.
func New(o Options) (*Registrar, error) {
	if o.Restart == nil {
		o.Restart = Backoff
	}
	r := &Registrar{opts: o, closed: make(chan struct{}), changed: make(chan struct{})}
	if err := r.listen(); err != nil {
		return nil, err
	}
	return r, nil
}

// listen takes the socket; the caller holds the lock, or is alone.
func (r *Registrar) listen() error {
	l, err := unixsocket.Replace(r.opts.Socket)
	if err != nil {
		return fmt.Errorf("registrar of driver %q: %w", r.opts.DriverName, err)
	}
	r.listener, r.server, r.told = l, grpc.NewServer(), false
	registration.RegisterRegistrationServer(r.server, r)
	return nil
}

// Serve answers the kubelet until ctx ends or the registrar is closed.
func (r *Registrar) Serve(ctx context.Context) error {
	for {
		r.mu.Lock()
		server, listener := r.server, r.listener
		r.mu.Unlock()
		stop := context.AfterFunc(ctx, server.Stop)
		err := server.Serve(listener)
		stop()
		if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		if again, err := r.again(ctx); !again || err != nil {
			return err
		}
	}
}

// again waits until it is time to serve once more after a refusal, and takes the socket; false when it never will be. It is the socket that went which
// counts: the kubelet may have said since, on a connection it still had, that it registered the driver.
func (r *Registrar) again(ctx context.Context) (bool, error) {
	r.mu.Lock()
	gone, n := r.told && !r.isClosed, max(r.refused, 1)
	r.mu.Unlock()
	if !gone {
		return false, nil
	}
	select {
	case <-ctx.Done():
		return false, nil
	case <-r.closed:
		return false, nil
	case <-time.After(r.opts.Restart(n - 1)):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isClosed {
		return false, nil
	}
	return true, r.listen()
}

// Close stops serving and removes the socket, which deregisters the driver; the history is told just before. Closing twice is no error.
func (r *Registrar) Close() error {
	r.mu.Lock()
	if !r.isClosed {
		r.isClosed = true
		close(r.closed)
	}
	r.mu.Unlock()
	return r.remove()
}

// remove takes the socket away.
func (r *Registrar) remove() error {
	r.mu.Lock()
	server, listener := r.tell()
	r.mu.Unlock()
	server.Stop()
	if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// tell notes, once for each socket, that it goes. The caller holds the lock.
func (r *Registrar) tell() (*grpc.Server, net.Listener) {
	if !r.told {
		r.told = true
		r.opts.History.Write(history.Event{
			Phase: history.Observed, Node: r.opts.Node, Key: "SocketRemoved",
			Body: history.Encode(history.CSICall{Side: history.ClientSide, Driver: r.opts.DriverName}),
		})
	}
	return r.server, r.listener
}

// Status returns what the kubelet said last.
func (r *Registrar) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Wait returns when the kubelet has registered the driver. A registration that failed is tried again, so an error comes only when ctx ends; it then
// names the last failure.
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
			switch now = r.Status(); { // it may have asked meanwhile
			case now.Registered:
				return nil
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
	if registered {
		r.refused = 0
	} else {
		r.refused++
		server, _ := r.tell()
		go server.GracefulStop() // once this call is answered
	}
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
