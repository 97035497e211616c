package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

// newTestControl is a client of a control interface with one path, "/do".
func newTestControl(t *testing.T, h http.Handler) *controlClient {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST /do", h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return newControlClient(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	})
}

// An error is of the same kind at both ends, with its remedy and its subject.
func TestControlErrors(t *testing.T) {
	driver := &cluster.DriverError{Driver: "d", Node: "n1", Err: errors.New("it ended")}
	env := &cluster.EnvironmentError{Op: "listen", Err: errors.New("port 1 is taken"), Remedy: "choose another"}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"plain", errors.New("no such node"), "environment: add node n1: no such node"},
		{"driver", driver, "driver d (node n1): it ended"},
		{"wrapped driver", fmt.Errorf("node n1: %w", errors.Join(driver, errors.New("undo failed"))), "driver d (node n1): it ended"},
		{"environment", env, "environment: listen: port 1 is taken\n  remedy: choose another"},
		{"wrapped environment", fmt.Errorf("boot: %w", env), "environment: listen: port 1 is taken\n  remedy: choose another"},
	} {
		control := newTestControl(t, handle(func(context.Context, none) (none, error) { return none{}, c.err }))
		got := control.call(t.Context(), "/do", none{}, nil)
		var answer *remoteError
		if !errors.As(got, &answer) {
			t.Errorf("%s: want the other end's answer, got %T %v", c.name, got, got)
		}
		// Twice, for what a node says goes through the cell.
		twice := newTestControl(t, handle(func(context.Context, none) (none, error) { return none{}, got }))
		for _, err := range []error{got, twice.call(t.Context(), "/do", none{}, nil)} {
			if text := cluster.Environment("add node n1", err).Error(); text != c.want {
				t.Errorf("%s: want %q, got %q", c.name, c.want, text)
			}
		}
	}
}

func TestControlAnswers(t *testing.T) {
	control := newTestControl(t, handle(func(_ context.Context, in nodeName) (driverName, error) {
		return driverName{Name: "got " + in.Name}, nil
	}))
	var out driverName
	if err := control.call(t.Context(), "/do", nodeName{Name: "n1"}, &out); err != nil || out.Name != "got n1" {
		t.Errorf("want %q, got %q, %v", "got n1", out.Name, err)
	}
	if err := control.call(t.Context(), "/do", "not an object", nil); err == nil || !strings.Contains(err.Error(), "unmarshal") {
		t.Errorf("a body of the wrong type: want an error from the other end, got %v", err)
	}
	if err := control.call(t.Context(), "/nothing", none{}, nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an unknown path: want its status, got %v", err)
	}
	if err := control.call(t.Context(), "/do", none{}, new(int)); err == nil || !strings.Contains(err.Error(), "decode answer") {
		t.Errorf("an answer of the wrong type: got %v", err)
	}
	dead := newControlClient(func(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") })
	err := dead.call(t.Context(), "/do", none{}, nil)
	var answer *remoteError
	if err == nil || !strings.Contains(err.Error(), "nobody there") || errors.As(err, &answer) {
		t.Errorf("nobody there: want an error that is no answer, got %v", err)
	}
}

func TestActionApply(t *testing.T) {
	p, dir := shell(t, obedient)
	for _, a := range []action{{Do: "start", Version: "v3.0.0"}, {Do: "pause"}, {Do: "resume"}, {Do: "stop", How: cluster.Terminate}} {
		if err := a.apply(t.Context(), p); err != nil {
			t.Fatalf("%s: %v", a.Do, err)
		}
	}
	wantStates(t, dir, "started", "ready", "paused", "resumed", "stopping", "stopped exit status 7")
	if got := p.status().Version; got != "v3.0.0" {
		t.Errorf("version: want v3.0.0, got %s", got)
	}
	err := action{ID: "thing", Do: "restart"}.apply(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), `component thing: cannot "restart": want start, stop, pause or resume`) {
		t.Errorf("unknown action: got %v", err)
	}
}

func TestMetricsOfNobody(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics/{component}", (&cell{}).serveMetrics)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	control := newControlClient(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	})
	got, err := control.get(t.Context(), "/metrics/nobody")
	if want := `ask the cell (/metrics/nobody): it answers 404 Not Found: component "nobody": its metrics cannot be read`; err == nil || strings.TrimSpace(err.Error()) != want {
		t.Errorf("want error %q, got %q, %v", want, got, err)
	}
}
