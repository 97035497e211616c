package gate

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// link is the way to the driver for one call.
type link struct {
	conn *grpc.ClientConn
	// first is the connection that proved the driver to be there; gRPC takes it over.
	first net.Conn
	taken atomic.Bool
	// answered is true once the driver itself sent a status.
	answered atomic.Bool
}

// connect reaches the driver's socket for one call. A driver that is not there gets the status that gRPC itself would give.
func (g *Gate) connect(ctx context.Context, c *call) (*link, error) {
	endpoint := ""
	if g.opts.Route != nil && c.method.routed() {
		endpoint = g.opts.Route(c.body.NodeID)
	}
	if endpoint == "" {
		endpoint = g.opts.Driver
	}
	if endpoint == "" {
		if c.body.NodeID == "" {
			return nil, status.Errorf(codes.Unavailable, "gate: no node runs driver %q", g.opts.DriverName)
		}
		return nil, status.Errorf(codes.Unavailable, "gate: no node that runs driver %q has the id %q: a driver answers the id that it is given, or its definition says nodeIDs: own",
			g.opts.DriverName, c.body.NodeID)
	}
	path, err := socketPath(endpoint)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "gate: %v", err)
	}
	var dialer net.Dialer
	l := &link{}
	l.first, err = dialer.DialContext(ctx, "unix", path)
	if err != nil {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		return nil, status.Errorf(codes.Unavailable, "connection error: desc = %q", "transport: error while dialing: "+err.Error())
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		if l.taken.CompareAndSwap(false, true) {
			return l.first, nil
		}
		return dialer.DialContext(ctx, "unix", path)
	}
	l.conn, err = grpc.NewClient("passthrough:///driver", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), grpc.WithStatsHandler(l), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		l.close()
		return nil, status.Errorf(codes.Internal, "gate: %v", err)
	}
	return l, nil
}

// close ends what is open of the link. Errors of closing say nothing about the call, which has ended.
func (l *link) close() {
	if l.conn != nil {
		_ = l.conn.Close()
	}
	if l.taken.CompareAndSwap(false, true) {
		_ = l.first.Close()
	}
}

// HandleRPC implements stats.Handler: it notices the end of a stream that the driver itself sent.
func (l *link) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.InTrailer); ok {
		l.answered.Store(true)
	}
}

// TagRPC implements stats.Handler.
func (*link) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (*link) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*link) HandleConn(context.Context, stats.ConnStats) {}
