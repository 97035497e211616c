package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// endpointMode is what an endpoint does with connections.
type endpointMode string

const (
	endpointPass      endpointMode = "pass"       // connections go through
	endpointRefuse    endpointMode = "refuse"     // open connections are reset, new ones too
	endpointHang      endpointMode = "hang"       // nothing goes through; nobody is told
	endpointNoRequest endpointMode = "no-request" // nothing reaches the API server, and what it says reaches the component
	endpointNoAnswer  endpointMode = "no-answer"  // the API server does what it is asked, and nothing of what it says reaches the component
	endpointImpostor  endpointMode = "impostor"   // open connections are reset; something else, which has no TLS, answers new ones
)

var endpointModes = []endpointMode{endpointPass, endpointRefuse, endpointHang, endpointNoRequest, endpointNoAnswer, endpointImpostor}

// direction is the way that bytes go.
type direction int

const (
	requests direction = iota // from the component to the API server
	answers
)

// holds says whether nothing goes that way.
func (m endpointMode) holds(d direction) bool {
	return m == endpointHang || m == endpointNoRequest && d == requests || m == endpointNoAnswer && d == answers
}

// impostorAnswer is what a balancer without a server behind it says.
const impostorAnswer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// inFlight is how many reads of a connection may be on their way at once, in each direction: what a latency lets through in its own time.
const inFlight = 1024

// endpoint is one component's own way to the API server: a TCP pass-through, so that the network between the two can fail for that component
// alone. TLS goes end to end through it.
type endpoint struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	mode    endpointMode
	latency time.Duration // of each direction
	changed chan struct{} // closed when mode or latency changes
	conns   map[net.Conn]struct{}
}

// piece is what one read of a connection gave: bytes, its end, or both.
type piece struct {
	came  time.Time
	bytes []byte
	end   error
}

// newEndpoint serves listener until it is closed.
func newEndpoint(listener net.Listener, target string) *endpoint {
	e := &endpoint{listener: listener, target: target, mode: endpointPass, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
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
	if !slices.Contains(endpointModes, mode) {
		return fmt.Errorf("endpoint mode %q: want one of %q", mode, endpointModes)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode = mode
	e.tell()
	if mode == endpointRefuse || mode == endpointImpostor {
		for c := range e.conns {
			reset(c)
		}
	}
	return nil
}

// delay makes everything take that much longer in each direction, so that an answer comes twice that later. 0 ends it, for what is on its way too.
func (e *endpoint) delay(latency time.Duration) error {
	if latency < 0 {
		return fmt.Errorf("endpoint latency %s: want 0 or more", latency)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.latency = latency
	e.tell()
	return nil
}

// tell wakes what is held. Called with the lock held.
func (e *endpoint) tell() {
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *endpoint) state() (endpointMode, time.Duration, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mode, e.latency, e.changed
}

// hold returns when what came at a time may go on in a direction.
func (e *endpoint) hold(came time.Time, d direction) {
	for {
		mode, latency, changed := e.state()
		if mode.holds(d) {
			<-changed
			continue
		}
		left := time.Until(came.Add(latency))
		if mode == endpointRefuse || mode == endpointImpostor || latency == 0 || left <= 0 {
			return
		}
		wait := time.NewTimer(left)
		select {
		case <-wait.C:
		case <-changed:
		}
		wait.Stop()
	}
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
	e.hold(time.Now(), requests)
	if mode, _, _ := e.state(); mode == endpointImpostor {
		impersonate(client)
		return
	}
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
	both.Go(func() { e.copy(server, client, requests) })
	both.Go(func() { e.copy(client, server, answers) })
	both.Wait()
}

// impersonate answers a question in plain HTTP, whatever it is, and lets the client end.
func impersonate(client net.Conn) {
	buf := make([]byte, 32<<10)
	if _, err := client.Read(buf); err != nil {
		return
	}
	if _, err := io.WriteString(client, impostorAnswer); err != nil {
		return
	}
	if half, ok := client.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, client) // a reset would take the answer with it
}

// copy moves bytes one way until an end, each piece no sooner than the endpoint lets it go.
func (e *endpoint) copy(to, from net.Conn, d direction) {
	pieces := make(chan piece, inFlight)
	go read(from, pieces)
	broken := false
	for p := range pieces {
		if broken {
			continue // until the reader has seen the end
		}
		e.hold(p.came, d)
		if len(p.bytes) > 0 {
			if _, err := to.Write(p.bytes); err != nil {
				reset(from)
				broken = true
				continue
			}
		}
		if half, ok := to.(*net.TCPConn); ok && p.end == io.EOF {
			_ = half.CloseWrite() // the other way may go on
		} else if p.end != nil {
			reset(to)
		}
	}
}

// read hands over what comes until an end, which is the last piece.
func read(from net.Conn, pieces chan<- piece) {
	defer close(pieces)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		pieces <- piece{time.Now(), bytes.Clone(buf[:n]), err}
		if err != nil {
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
