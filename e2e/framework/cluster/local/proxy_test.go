package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unseen is how long a test looks for what must not come. It can only miss a fault, never see one that is not there.
const unseen = 100 * time.Millisecond

// newTestEndpoint is an endpoint in front of a server that handles each connection with serve.
func newTestEndpoint(t *testing.T, serve func(*net.TCPConn)) *endpoint {
	t.Helper()
	server := listenLoopback(t)
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
	e := newEndpoint(listenLoopback(t), server.Addr().String())
	t.Cleanup(func() { setMode(t, e, endpointRefuse) }) // ends what hangs
	return e
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // a test may have closed it
	return l
}

func setMode(t *testing.T, e *endpoint, mode endpointMode) {
	t.Helper()
	if err := e.set(mode); err != nil {
		t.Fatal(err)
	}
}

// dialEndpoint connects, with a limit to everything that is done on the connection.
func dialEndpoint(t *testing.T, e *endpoint) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", e.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("receive: want %q, got %q, %v", want, got, err)
	}
}

func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: want a reset, got %v", err)
	}
}

// wantRefused wants a new connection reset, which may show before its dial returns.
func wantRefused(t *testing.T, e *endpoint) {
	t.Helper()
	c, err := net.Dial("tcp", e.listener.Addr().String())
	if err == nil {
		defer c.Close()
		err = c.SetDeadline(time.Now().Add(30 * time.Second))
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("new connection: want a reset, got %v", err)
	}
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

func TestEndpointPasses(t *testing.T) {
	e := newTestEndpoint(t, echo)
	c := dialEndpoint(t, e)
	for range 3 {
		send(t, c, "question")
		receive(t, c, "question")
	}
}

// One side may end while the other goes on.
func TestEndpointHalfClose(t *testing.T) {
	e := newTestEndpoint(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		_, _ = io.WriteString(c, "all of: "+string(all))
	})
	c := dialEndpoint(t, e)
	send(t, c, "question")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "all of: question" {
		t.Errorf("answer after the half-close: got %q, %v", got, err)
	}
}

func TestEndpointRefuses(t *testing.T) {
	e := newTestEndpoint(t, echo)
	open := dialEndpoint(t, e)
	send(t, open, "x")
	receive(t, open, "x")
	setMode(t, e, endpointRefuse)
	wantReset(t, open)
	wantRefused(t, e)
	setMode(t, e, endpointPass)
	again := dialEndpoint(t, e)
	send(t, again, "y")
	receive(t, again, "y")
}

func TestEndpointImpostor(t *testing.T) {
	e := newTestEndpoint(t, echo)
	open := dialEndpoint(t, e)
	send(t, open, "x")
	receive(t, open, "x")
	setMode(t, e, endpointImpostor)
	wantReset(t, open)
	_, err := (&http.Client{Timeout: 30 * time.Second}).Get("https://" + e.listener.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		t.Errorf("TLS to the impostor: want to be told what it is, got %v", err)
	}
	setMode(t, e, endpointPass)
	again := dialEndpoint(t, e)
	send(t, again, "y")
	receive(t, again, "y")
}

func TestEndpointHangs(t *testing.T) {
	seen := make(chan string, 10)
	e := newTestEndpoint(t, func(c *net.TCPConn) {
		b := make([]byte, 100)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			seen <- string(b[:n])
			_, _ = c.Write(b[:n])
		}
	})
	open := dialEndpoint(t, e)
	send(t, open, "before")
	receive(t, open, "before")
	<-seen
	setMode(t, e, endpointHang)
	send(t, open, "held")
	late := dialEndpoint(t, e)
	send(t, late, "late")
	select {
	case got := <-seen:
		t.Fatalf("while the endpoint hangs: want nothing to pass, got %q", got)
	case <-time.After(unseen):
	}
	setMode(t, e, endpointHang) // again changes nothing
	setMode(t, e, endpointPass)
	receive(t, open, "held")
	receive(t, late, "late")

	setMode(t, e, endpointHang)
	send(t, open, "lost")
	setMode(t, e, endpointRefuse)
	wantReset(t, open)
}

// Half of a connection: what the one side says is lost to the other, and not the other way round.
func TestEndpointHalves(t *testing.T) {
	heard, say := make(chan string, 10), make(chan string, 10)
	e := newTestEndpoint(t, func(c *net.TCPConn) {
		go func() {
			for text := range say {
				_, _ = io.WriteString(c, text)
			}
		}()
		b := make([]byte, 100)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			heard <- string(b[:n])
		}
	})
	t.Cleanup(func() { close(say) })
	wantHeard := func(want string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != want {
				t.Fatalf("the server: want %q, got %q", want, got)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("the server: want %q, got nothing", want)
		}
	}
	c := dialEndpoint(t, e)
	send(t, c, "hello")
	wantHeard("hello")

	setMode(t, e, endpointNoAnswer)
	send(t, c, "question")
	wantHeard("question")
	say <- "answer"
	if err := c.SetReadDeadline(time.Now().Add(unseen)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s: want nothing to come back, got %d bytes, %v", endpointNoAnswer, n, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}

	setMode(t, e, endpointNoRequest)
	receive(t, c, "answer")
	say <- "event"
	receive(t, c, "event")
	send(t, c, "lost")
	select {
	case got := <-heard:
		t.Fatalf("%s: want nothing to arrive, got %q", endpointNoRequest, got)
	case <-time.After(unseen):
	}

	setMode(t, e, endpointPass)
	wantHeard("lost")
}

func setLatency(t *testing.T, e *endpoint, latency time.Duration) {
	t.Helper()
	if err := e.delay(latency); err != nil {
		t.Fatal(err)
	}
}

// A latency counts in each direction, and what is on its way when it ends goes on at once.
func TestEndpointDelays(t *testing.T) {
	e := newTestEndpoint(t, echo)
	open := dialEndpoint(t, e)
	send(t, open, "before")
	receive(t, open, "before")

	const latency = 50 * time.Millisecond
	setLatency(t, e, latency)
	began := time.Now()
	send(t, open, "slow")
	receive(t, open, "slow")
	if took := time.Since(began); took < 2*latency {
		t.Errorf("question and answer with a latency of %s: want at least %s, got %s", latency, 2*latency, took)
	}

	setLatency(t, e, time.Hour)
	send(t, open, "held")
	late := dialEndpoint(t, e)
	send(t, late, "late")
	if err := open.SetReadDeadline(time.Now().Add(unseen)); err != nil {
		t.Fatal(err)
	}
	if n, err := open.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("with a latency of an hour: want nothing to pass, got %d bytes, %v", n, err)
	}
	if err := open.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	setLatency(t, e, 0)
	receive(t, open, "held")
	receive(t, late, "late")

	setLatency(t, e, time.Hour)
	send(t, open, "lost")
	setMode(t, e, endpointRefuse)
	wantReset(t, open)
}

// Latency keeps order and loses nothing; the end comes last.
func TestEndpointDelaysKeepOrder(t *testing.T) {
	e := newTestEndpoint(t, echo)
	setLatency(t, e, 20*time.Millisecond)
	c := dialEndpoint(t, e)
	var want strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&want, "piece %d\n", i)
	}
	go func() {
		for line := range strings.Lines(want.String()) {
			if _, err := io.WriteString(c, line); err != nil {
				return // which the reader sees
			}
		}
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != want.String() {
		t.Errorf("want %d bytes in order, got %d, %v", want.Len(), len(got), err)
	}
}

func TestEndpointWithoutServer(t *testing.T) {
	gone := listenLoopback(t)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if err := dialable(t.Context(), gone.Addr().String()); err == nil {
		t.Error("dialable without a server: want an error")
	}
	e := newEndpoint(listenLoopback(t), gone.Addr().String())
	wantRefused(t, e)
	if err := dialable(t.Context(), listenLoopback(t).Addr().String()); err != nil {
		t.Errorf("dialable with a server: %v", err)
	}
}

func TestEndpointMode(t *testing.T) {
	e := newTestEndpoint(t, echo)
	err := e.set("slow")
	if err == nil || !strings.Contains(err.Error(), `endpoint mode "slow": want one of ["pass" "refuse" "hang" "no-request" "no-answer" "impostor"]`) {
		t.Errorf("unknown mode: got %v", err)
	}
	if err := e.delay(-1); err == nil || !strings.Contains(err.Error(), "endpoint latency -1ns: want 0 or more") {
		t.Errorf("negative latency: got %v", err)
	}
	if mode, latency, _ := e.state(); mode != endpointPass || latency != 0 {
		t.Errorf("after the errors: want %s without latency, got %s, %s", endpointPass, mode, latency)
	}
}
