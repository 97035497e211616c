package run

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// Replace stops the bench's driver on a node in the way given and starts another release of it: 1 is the one that benches begin with.
func (b *Bench) Replace(ctx context.Context, node string, how cluster.Signal, release int) {
	id := b.DriverOn(node)
	b.Stop(ctx, id, how)
	b.Check(cluster.Environment(fmt.Sprintf("start release %d of %s", release, id), b.Part(ctx, id).Start(ctx, versions.Version(strconv.Itoa(release)))))
}

// DriverOn is the component id of the bench's driver on a node.
func (b *Bench) DriverOn(node string) string { return "driver@" + node + "/" + b.Driver }

// CacheAge is the driver's declared cache age: what a call that begins so much after a change is answered with was asked for after it.
func (b *Bench) CacheAge() time.Duration { return time.Duration(b.Header.Params.Driver.CacheAge) }

// NextAnswer waits for the kubelet of a node to ask the driver for its count, from after a time of CLOCK_MONOTONIC on, and returns the answer. A call
// that fails is the driver's failure.
func (b *Bench) NextAnswer(ctx context.Context, node string, after time.Duration) int64 {
	var answer history.CSICall
	b.Await(ctx, max(0, after-history.Now())+b.Setup.Period+PodStart, func(context.Context) error {
		asked := map[string]bool{}
		n, err := history.Count(b.events(), history.PrefixCSI+node, func(e history.Event) bool {
			var call history.CSICall
			if e.Key != "NodeGetInfo" || e.Decode(&call) != nil || call.Side != history.ClientSide || call.Driver != b.Driver {
				return false
			}
			if e.Phase == history.Invoke {
				asked[e.Op] = e.At >= after
				return false
			}
			if asked[e.Op] {
				answer = call
			}
			return asked[e.Op]
		})
		if err != nil {
			return cluster.Environment("read the history", err)
		}
		if n == 0 {
			return fmt.Errorf("node %q: want the kubelet to ask driver %q for its count, got no call", node, b.Driver)
		}
		return nil
	})
	if code := codes.Code(answer.Code); code != codes.OK {
		b.Check(Blame(history.Driver, fmt.Errorf("NodeGetInfo on node %q: want an answer, got code %s: %s", node, code, answer.Message)))
	}
	if answer.MaxVolumes == nil {
		return 0
	}
	return *answer.MaxVolumes
}

// WantAnswer is NextAnswer for calls that begin after a while from now; an answer outside least..most is the driver's failure.
func (b *Bench) WantAnswer(ctx context.Context, node, when string, after time.Duration, least, most int64) {
	if got := b.NextAnswer(ctx, node, history.Now()+after); got < least || got > most {
		b.Check(Blame(history.Driver, fmt.Errorf("NodeGetInfo on node %q %s: want an answer from %d to %d, got %d", node, when, least, most, got)))
	}
}
