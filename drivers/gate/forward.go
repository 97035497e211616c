package gate

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"headroom/e2e/framework/history"
)

// handle serves one call of any method.
func (g *Gate) handle(_ any, stream grpc.ServerStream) error {
	full, ok := grpc.MethodFromServerStream(stream)
	if !ok {
		return status.Error(codes.Internal, "gate: call without a method")
	}
	m := methodOf(full)
	if !m.unary() {
		return g.stream(stream, m)
	}
	var req frame
	if err := stream.RecvMsg(&req); err != nil {
		if errors.Is(err, io.EOF) {
			return status.Errorf(codes.Internal, "gate: %s without a request", m.name)
		}
		return err
	}
	return g.unary(stream, m, req)
}

// unary forwards a call with one request and one answer.
func (g *Gate) unary(stream grpc.ServerStream, m method, req frame) error {
	ctx := stream.Context()
	c := g.newCall(m, req)
	rule := g.opts.Rules.match(m.name, c.body.Volume, c.node) // before the record, by which others may go that take the rule away
	c.injected = rule != nil
	c.invoke(history.ClientSide)

	err, known := rule.before(ctx), true
	var resp frame
	if err == nil {
		resp, err, known = g.ask(ctx, stream, c, req)
		resp, err = rule.after(ctx, m, resp, err)
	}
	err = c.seen(ctx, err)
	c.complete(history.ClientSide, resp, err, known)
	if err != nil {
		return err
	}
	return stream.SendMsg(&resp)
}

// ask makes the call to the driver. known is false when err is not the driver's own word and the call may have reached it.
func (g *Gate) ask(ctx context.Context, stream grpc.ServerStream, c *call, req frame) (resp frame, err error, known bool) {
	link, err := g.connect(ctx, c)
	if err != nil {
		return resp, err, true
	}
	defer link.close()
	c.invoke(history.DriverSide)
	if s := g.opts.Stage; s != nil && c.method.desc != nil && s.Handles(c.method.name) {
		resp, err, known = c.staged(outgoing(ctx), s, link, req)
		c.complete(history.DriverSide, resp, err, known)
		return resp, err, known
	}
	var header, trailer metadata.MD
	err = link.conn.Invoke(outgoing(ctx), c.method.full, &req, &resp, grpc.Header(&header), grpc.Trailer(&trailer))
	known = link.answered.Load()
	c.complete(history.DriverSide, resp, err, known)
	stream.SetTrailer(trailer)
	if e := stream.SetHeader(header); err == nil {
		err = e
	}
	return resp, err, known
}

// stream forwards a call of which nothing is known: messages pass in both directions as they come.
func (g *Gate) stream(up grpc.ServerStream, m method) error {
	ctx := up.Context()
	c := g.newCall(m, frame{})
	rule := g.opts.Rules.match(m.name, "", c.node)
	c.injected = rule != nil
	c.invoke(history.ClientSide)

	err, known := rule.before(ctx), true
	if err == nil {
		err, known = g.pipe(ctx, up, c)
	}
	err = c.seen(ctx, err)
	c.complete(history.ClientSide, frame{}, err, known)
	return err
}

func (g *Gate) pipe(ctx context.Context, up grpc.ServerStream, c *call) (err error, known bool) {
	link, err := g.connect(ctx, c)
	if err != nil {
		return err, true
	}
	defer link.close()
	c.invoke(history.DriverSide)
	defer func() { c.complete(history.DriverSide, frame{}, err, known) }()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	down, err := link.conn.NewStream(outgoing(ctx), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, c.method.full)
	if err != nil {
		return err, link.answered.Load()
	}
	go copyUp(up, down)
	err = copyDown(up, down, cancel)
	up.SetTrailer(down.Trailer())
	return err, link.answered.Load()
}

// copyUp sends what the client sends to the driver. Errors show on the other direction, which has the status.
func copyUp(up grpc.ServerStream, down grpc.ClientStream) {
	for {
		var f frame
		if err := up.RecvMsg(&f); err != nil {
			if errors.Is(err, io.EOF) {
				_ = down.CloseSend()
			}
			return
		}
		if err := down.SendMsg(&f); err != nil {
			return
		}
	}
}

// copyDown sends what the driver answers to the client, until its status. When the client is gone it ends the call with the driver.
func copyDown(up grpc.ServerStream, down grpc.ClientStream, cancel context.CancelFunc) error {
	var lost error
	if header, err := down.Header(); err == nil && header != nil {
		lost = up.SendHeader(header)
	}
	for {
		if lost != nil {
			cancel()
		}
		var f frame
		err := down.RecvMsg(&f)
		switch {
		case err == nil && lost == nil:
			lost = up.SendMsg(&f)
		case err != nil && lost != nil:
			return lost
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// outgoing carries the client's metadata on. What belongs to the connection between client and gate stays behind.
func outgoing(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	md = md.Copy()
	for _, key := range []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"} {
		delete(md, key)
	}
	return metadata.NewOutgoingContext(ctx, md)
}
