package drivercheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"headroom/e2e/framework/cluster"
)

const (
	// callLimit is how long the driver may take for one call; the external-attacher gives it 15 s, the kubelet more.
	callLimit = 10 * time.Second
	// connectLimit is how long a socket may take to show that it speaks gRPC.
	connectLimit = 5 * time.Second
)

// unixPath is the path of a unix:// endpoint.
func unixPath(what, endpoint string) (string, error) {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok || !strings.HasPrefix(path, "/") {
		return "", badInput("write it as unix:///absolute/path", "%s %q: want a Unix socket", what, endpoint)
	}
	return path, nil
}

// connect reaches a socket. What keeps it from speaking gRPC is the environment's failure, with a remedy: nothing is known of the driver then.
func connect(ctx context.Context, path string, limit time.Duration) (*grpc.ClientConn, error) {
	if err := look(ctx, path); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, err
	}
	if err := shakeHands(ctx, conn, path, limit); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// look says what is wrong with a socket's file, and whether anybody listens.
func look(ctx context.Context, path string) error {
	op := "reach the driver's socket"
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &cluster.EnvironmentError{Op: op, Err: err, Remedy: "start the driver first, or correct the path"}
	case errors.Is(err, fs.ErrPermission):
		return &cluster.EnvironmentError{Op: op, Err: err, Remedy: "run as the driver's user, or let yours enter the folder"}
	case err != nil:
		return &cluster.EnvironmentError{Op: op, Err: err}
	case info.Mode().Type() != fs.ModeSocket:
		return &cluster.EnvironmentError{Op: op, Err: fmt.Errorf("%s is no socket: %s", path, info.Mode()), Remedy: "name the socket that the driver serves CSI on"}
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrPermission) {
		return &cluster.EnvironmentError{Op: op, Err: err, Remedy: "run as the driver's user, or let yours write to the socket"}
	}
	if err != nil {
		return &cluster.EnvironmentError{Op: op, Err: err, Remedy: "nobody listens there: start the driver, or remove what a dead one left"}
	}
	return c.Close()
}

// shakeHands waits until the other side has shown that it speaks HTTP/2, which is where gRPC begins.
func shakeHands(ctx context.Context, conn *grpc.ClientConn, path string, limit time.Duration) error {
	const remedy = "name the socket that the driver serves CSI on; what answers there is something else"
	handshake, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn.Connect()
	for {
		switch state := conn.GetState(); state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			_, err := csi.NewIdentityClient(conn).Probe(handshake, &csi.ProbeRequest{}) // which says why
			if status.Code(err) != codes.Unavailable {
				return nil // it spoke after all
			}
			return &cluster.EnvironmentError{Op: "speak gRPC on " + path, Err: errors.New(status.Convert(err).Message()), Remedy: remedy}
		default:
			if !conn.WaitForStateChange(handshake, state) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return &cluster.EnvironmentError{Op: "speak gRPC on " + path, Err: fmt.Errorf("no HTTP/2 settings came within %s", limit), Remedy: remedy}
			}
		}
	}
}

// lostError is a driver that stopped answering: nothing can be judged any more.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// timedOut says whether a call ended because its deadline had passed, and not with that code of the driver's own. The clock decides: gRPC's server ends a call
// at its deadline too, and the answer may be here before this side's timer has run.
func timedOut(bounded context.Context, st *status.Status) bool {
	deadline, _ := bounded.Deadline()
	return st.Code() == codes.DeadlineExceeded && !time.Now().Before(deadline)
}

// call makes one call of the driver. The status is the driver's own; err says that there is none: the driver hung or is gone, which is recorded, or the run
// was interrupted.
func call[Q, A any](ctx context.Context, s *session, method string, f func(context.Context, Q, ...grpc.CallOption) (A, error), req Q) (A, *status.Status, error) {
	limit := s.scaled(callLimit)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	var header, trailer metadata.MD // whoever answers sends at least one
	answer, err := f(bounded, req, grpc.Header(&header), grpc.Trailer(&trailer))
	st := status.Convert(err)
	switch {
	case err == nil:
		s.calls++
		return answer, st, nil
	case ctx.Err() != nil:
		return answer, st, ctx.Err()
	case timedOut(bounded, st):
		s.rec.violated(caseAnswers, "%s: want an answer within %s, got none", method, limit)
		s.rec.stopped = "the driver did not answer " + method
	case st.Code() == codes.Unavailable && len(header)+len(trailer) == 0:
		took := time.Since(began)
		s.awaitDeath()
		s.rec.violated(caseAnswers, "%s: the driver is gone after %s: %s%s", method, took.Round(time.Millisecond), st.Message(), s.tail())
		s.rec.stopped = "the driver was gone at " + method
	default:
		s.calls++
		return answer, st, nil
	}
	return answer, st, &lostError{fmt.Errorf("%s: %w", method, err)}
}
