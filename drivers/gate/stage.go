package gate

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// staged lets a stage answer a call. known is false when err may hide what the driver did.
func (c *call) staged(ctx context.Context, s Stage, l *link, req frame) (resp frame, err error, known bool) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(c.method.desc.Input().FullName())
	if err != nil {
		return resp, status.Errorf(codes.Internal, "gate: %v", err), true
	}
	in := t.New().Interface()
	if err := proto.Unmarshal(req.bytes, in); err != nil {
		return resp, status.Errorf(codes.Internal, "gate: the request does not decode: %v", err), true
	}
	driver := &typed{link: l, known: true}
	out, err := s.Handle(ctx, c.method.name, in, driver)
	if err != nil {
		return resp, err, driver.known
	}
	if resp.bytes, err = proto.Marshal(out); err != nil {
		return resp, status.Errorf(codes.Internal, "gate: the answer does not encode: %v", err), true
	}
	return resp, nil, true
}

// typed is a link for messages that are decoded.
type typed struct {
	link *link
	// known says that the driver itself answered the last call.
	known bool
}

// Invoke implements grpc.ClientConnInterface.
func (t *typed) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	in, ok := args.(proto.Message)
	out, both := reply.(proto.Message)
	if !ok || !both {
		return fmt.Errorf("gate: call %s with %T and %T, want messages", method, args, reply)
	}
	b, err := proto.Marshal(in)
	if err != nil {
		return err
	}
	var answer frame
	t.link.answered.Store(false)
	err = t.link.conn.Invoke(ctx, method, &frame{b}, &answer, opts...)
	if t.known = t.link.answered.Load(); err != nil {
		return err
	}
	return proto.Unmarshal(answer.bytes, out)
}

// NewStream implements grpc.ClientConnInterface; the CSI specification's unary calls need none.
func (*typed) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("gate: a stage makes unary calls only")
}
