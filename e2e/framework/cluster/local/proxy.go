package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// endpointMode is what an endpoint does with connections.
type endpointMode string

const (
	endpointPass   endpointMode = "pass"   // connections go through
	endpointRefuse endpointMode = "refuse" // open connections are reset, new ones too
	endpointHang   endpointMode = "hang"   // nothing goes through; nobody is told
)

// endpoint is one component's own way to the API server: a TCP pass-through, so that the network between the two can fail for that component
// alone. TLS goes end to end through it.
type endpoint struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	mode  endpointMode
	freed chan struct{} // closed when the mode is no longer hang
	conns map[net.Conn]struct{}
}

// newEndpoint serves listener until it is closed.
func newEndpoint(listener net.Listener, target string) *endpoint {
	e := &endpoint{listener: listener, target: target, mode: endpointPass, freed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(e.freed)
	go e.serve()
	return e
}

func (e *endpoint) serve() {
	for {
		c, err := e.listener.Accept()
		if err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				continue
			}
			return
		}
		go e.handle(c)
	}
}

// set changes the mode for open and new connections.
func (e *endpoint) set(mode endpointMode) error {
	switch mode {
	case endpointPass, endpointRefuse, endpointHang:
	default:
		return fmt.Errorf("endpoint mode %q: want %s, %s or %s", mode, endpointPass, endpointRefuse, endpointHang)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mode != endpointHang && mode == endpointHang {
		e.freed = make(chan struct{})
	}
	if e.mode == endpointHang && mode != endpointHang {
		close(e.freed)
	}
	e.mode = mode
	if mode == endpointRefuse {
		for c := range e.conns {
			reset(c)
		}
	}
	return nil
}

func (e *endpoint) state() (endpointMode, chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mode, e.freed
}

// track adds a connection, or refuses it.
func (e *endpoint) track(c net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mode == endpointRefuse {
		reset(c)
		return false
	}
	e.conns[c] = struct{}{}
	return true
}

func (e *endpoint) untrack(c net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
}

func (e *endpoint) handle(client net.Conn) {
	if !e.track(client) {
		return
	}
	defer e.untrack(client)
	defer client.Close()
	e.waitFreed()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	server, err := new(net.Dialer).DialContext(ctx, "tcp", e.target)
	cancel()
	if err != nil {
		reset(client)
		return
	}
	if !e.track(server) {
		return
	}
	defer e.untrack(server)
	defer server.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() { e.copy(way[0], way[1]) })
	}
	both.Wait()
}

func (e *endpoint) waitFreed() {
	_, freed := e.state()
	<-freed
}

// copy moves bytes one way until an end, holding them while the endpoint hangs.
func (e *endpoint) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			e.waitFreed()
			if _, werr := to.Write(buf[:n]); werr != nil {
				reset(from)
				return
			}
		}
		if err != nil {
			if half, ok := to.(*net.TCPConn); ok && err == io.EOF {
				_ = half.CloseWrite() // the other way may go on
				return
			}
			reset(to)
			return
		}
	}
}

// reset closes a connection so that its peer sees a reset and not an orderly end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// dialable says whether something listens at addr.
func dialable(ctx context.Context, addr string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}
