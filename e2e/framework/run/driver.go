package run

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// Restart stops a component of the cluster in the way given, starts it again after a while, at the version that it had, and returns once it is healthy.
func (b *Bench) Restart(ctx context.Context, id string, how cluster.Signal, down time.Duration) {
	c := b.component(ctx, id)
	b.Check(cluster.Environment("stop "+id, c.Stop(ctx, how)))
	select {
	case <-time.After(down):
	case <-ctx.Done():
	}
	b.Check(cluster.Environment("start "+id, c.Start(ctx, "")))
}

// Replace stops the bench's driver on a node in the way given and starts another release of it: 1 is the one that benches begin with.
func (b *Bench) Replace(ctx context.Context, node string, how cluster.Signal, release int) {
	id := b.DriverOn(node)
	c := b.component(ctx, id)
	b.Check(cluster.Environment("stop "+id, c.Stop(ctx, how)))
	b.Check(cluster.Environment(fmt.Sprintf("start release %d of %s", release, id), c.Start(ctx, versions.Version(strconv.Itoa(release)))))
}

func (b *Bench) component(ctx context.Context, id string) cluster.Component {
	all, err := b.Cluster.Components(ctx)
	b.Check(cluster.Environment("list the components", err))
	i := slices.IndexFunc(all, func(c cluster.Component) bool { return c.ID() == id })
	if i < 0 {
		b.Check(cluster.Environment("find component "+id, fmt.Errorf("want it among %d components", len(all))))
	}
	return all[i]
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
