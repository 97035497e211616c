package gate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/e2e/framework/history"
)

// epoch and ops make operation ids that are unique in a source even when gates share a writer and processes continue a file.
var (
	epoch = history.Now()
	ops   atomic.Uint64
)

// NextOp returns an operation id that no other call of this machine's run has.
func NextOp() string { return fmt.Sprintf("c%x.%d", int64(epoch), ops.Add(1)) }

// call is one call in the history.
type call struct {
	method   method
	history  *history.Writer
	op       string
	node     string
	body     history.CSICall // what both sides and both ends have in common
	injected bool
	began    time.Time
}

func (g *Gate) newCall(m method, req frame) *call {
	c := &call{method: m, history: g.opts.History, op: NextOp(), node: g.opts.Node, began: time.Now()}
	c.body.Driver = g.opts.DriverName
	m.request(req, &c.body)
	if c.node == "" {
		c.node = c.body.NodeID
	}
	return c
}

func (c *call) invoke(side history.Side) {
	body := c.body
	body.Side = side
	c.write(history.Invoke, body)
}

// complete records an end. known is whether err, if any, is certain to be the called side's own answer.
func (c *call) complete(side history.Side, resp frame, err error, known bool) {
	body := c.body
	body.Side = side
	body.Injected = side == history.ClientSide && c.injected
	if err == nil {
		c.method.answer(resp, &body)
		c.write(history.OK, body)
		return
	}
	s := status.Convert(err)
	body.Code, body.Message = uint32(s.Code()), s.Message()
	phase := history.Fail
	if !known || s.Code() == codes.DeadlineExceeded || s.Code() == codes.Canceled {
		phase = history.Unknown
	}
	c.write(phase, body)
}

func (c *call) write(phase history.Phase, body history.CSICall) {
	c.history.Write(history.Event{Phase: phase, Op: c.op, Node: c.node, Key: c.method.name, Body: history.Encode(body)})
}

// seen is what the client saw: a call that its client gave up on ends with the client's reason, whatever the driver answered. A client whose
// deadline passes cancels the stream, often a little before the deadline that it sent is over here: that is a deadline all the same.
func (c *call) seen(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	cause := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < max(250*time.Millisecond, deadline.Sub(c.began)/20) {
		cause = context.DeadlineExceeded
	}
	return status.FromContextError(cause).Err()
}
