package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/versions"
)

// The control interface is HTTP with JSON bodies over a unix socket: of the cell towards the runner, and of each node agent towards the cell.

// componentStatus is a component as the control interface shows it.
type componentStatus struct {
	ID      string           `json:"id"`
	Version versions.Version `json:"version,omitempty"`
	PID     int              `json:"pid,omitempty"` // 0 when stopped; in the cell's PID namespace
	Log     string           `json:"log,omitempty"`
}

// action is a change of one component.
type action struct {
	ID      string           `json:"id"`
	Do      string           `json:"do"` // start, stop, pause, resume
	How     cluster.Signal   `json:"how,omitempty"`
	Version versions.Version `json:"version,omitempty"`
	// Binary is the executable of Version, where the cell may not know it yet.
	Binary string `json:"binary,omitempty"`
}

// apply carries an action out on a process.
func (a action) apply(ctx context.Context, p *process) error {
	switch a.Do {
	case "start":
		return p.start(ctx, a.Version)
	case "stop":
		return p.stop(ctx, a.How)
	case "pause":
		return p.pause()
	case "resume":
		return p.resume()
	}
	return fmt.Errorf("component %s: cannot %q: want start, stop, pause or resume", a.ID, a.Do)
}

// failure is an error on the wire.
type failure struct {
	Error string `json:"error"`
	// Op and Remedy are those of a cluster.EnvironmentError.
	Op     string `json:"op,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Driver and Node are set for a cluster.DriverError.
	Driver string `json:"driver,omitempty"`
	Node   string `json:"node,omitempty"`
}

func (f failure) err() error {
	err := errors.New(f.Error)
	switch {
	case f.Driver != "":
		return &remoteError{&cluster.DriverError{Driver: f.Driver, Node: f.Node, Err: err}}
	case f.Op != "":
		return &remoteError{&cluster.EnvironmentError{Op: f.Op, Err: err, Remedy: f.Remedy}}
	}
	return &remoteError{err}
}

// remoteError is an error that the other end reported; it is of the same kind as there.
type remoteError struct{ error }

func (e *remoteError) Unwrap() error { return e.error }

func failureOf(err error) failure {
	var driver *cluster.DriverError
	if errors.As(err, &driver) {
		return failure{Error: driver.Err.Error(), Driver: driver.Driver, Node: driver.Node}
	}
	var env *cluster.EnvironmentError
	if errors.As(err, &env) {
		return failure{Error: env.Err.Error(), Op: env.Op, Remedy: env.Remedy}
	}
	return failure{Error: err.Error()}
}

// handle makes an HTTP handler of a function from a request body to an answer.
func handle[In, Out any](f func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		body, err := io.ReadAll(r.Body)
		if err == nil && len(body) > 0 {
			err = json.Unmarshal(body, &in)
		}
		var out Out
		if err == nil {
			out, err = f(r.Context(), in)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(failureOf(err)) // the peer is gone if this fails
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	}
}

// none is the empty body.
type none struct{}

// controlClient speaks to a control interface.
type controlClient struct{ http *http.Client }

// newControlClient reaches a control interface through dial.
func newControlClient(dial func(context.Context) (net.Conn, error)) *controlClient {
	return &controlClient{http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// call posts in to path and decodes the answer into out, when that is not nil.
func (c *controlClient) call(ctx context.Context, path string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	body, err := c.ask(ctx, http.MethodPost, path, bytes.NewReader(b))
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("ask the cell (%s): decode answer: %w", path, err)
	}
	return nil
}

// get reads what a control interface answers, other than JSON.
func (c *controlClient) get(ctx context.Context, path string) ([]byte, error) {
	return c.ask(ctx, http.MethodGet, path, nil)
}

// ask returns the body of the answer; an error that the other end reported is of the same kind as there.
func (c *controlClient) ask(ctx context.Context, method, path string, in io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://cell"+path, in)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the cell (%s): %w", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("ask the cell (%s): %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		var f failure
		if err := json.Unmarshal(body, &f); err != nil || f.Error == "" {
			return nil, fmt.Errorf("ask the cell (%s): it answers %s: %.200s", path, resp.Status, body)
		}
		return nil, f.err()
	}
	return body, nil
}
