package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// Releases of a driver: olderRelease is the one that every node begins with.
const olderRelease, newerRelease versions.Version = "1", "2"

// reportedAfter is how long the newer release has to report the fall: the shortest period, and the time for an answer and a write.
const reportedAfter = 15 * time.Second

// rollbackParams say what a rollout that fails half-way leaves.
type rollbackParams struct {
	// To is the limit that only the newer release sees fall; chosen at random when left out.
	To *int64 `yaml:"to,omitempty"`
	// Lease is how long a release that was killed may keep others from speaking; healing waits for it.
	Lease history.Duration `yaml:"lease,omitempty"`
}

// Check implements scenario.Checked.
func (p *rollbackParams) Check() (field, remedy string, err error) {
	if p.Lease < 0 {
		return "lease", "write 0s or more", fmt.Errorf("a lease of %s", p.Lease)
	}
	return (&moveParams{To: p.To}).Check()
}

func init() {
	define(Fault{
		Name: "driver-rollback", Targets: []scenario.Class{scenario.NodeDriver}, Supports: needsRegistry,
		Doc: "A newer release of the driver takes over on a node, the limit falls and is reported, the newer release is killed, and the older one comes back, " +
			"as from a rollout that fails half-way. Healing waits for as long as a dead release may keep others from speaking, and raises the limit to where " +
			"it was; the older release stays.",
	}, rollbackParams{Lease: history.Duration(30 * time.Second)}, func(ctx context.Context, t Target, r *rand.Rand, p *rollbackParams) (Heal, error) {
		c, err := t.Component(ctx)
		if err != nil {
			return nil, err
		}
		if err := t.release(ctx, c, cluster.Terminate, newerRelease); err != nil {
			return nil, err
		}
		raise, to, err := drop(ctx, t, r, &moveParams{To: p.To})
		if err != nil {
			return nil, errors.Join(err, t.release(ctx, c, cluster.Terminate, olderRelease))
		}
		t.awaitCount(ctx, max(1, to))
		killed := time.Now()
		if err := t.release(ctx, c, cluster.Kill, olderRelease); err != nil {
			return nil, errors.Join(err, raise(ctx))
		}
		return func(ctx context.Context) error {
			select {
			case <-time.After(time.Until(killed.Add(time.Duration(p.Lease)))):
			case <-t.Cluster.Done():
				return errors.New("the cluster has ended")
			case <-ctx.Done(): // the limit is raised all the same
			}
			return errors.Join(ctx.Err(), raise(ctx))
		}, nil
	})
}

// release ends the target's driver in the way given and starts another release of it, which registers as a pod does.
func (t Target) release(ctx context.Context, c cluster.Component, how cluster.Signal, v versions.Version) error {
	if err := c.Stop(ctx, how); err != nil {
		return err
	}
	if err := c.Start(ctx, v); err != nil {
		return err
	}
	return t.Cluster.(registry).Register(ctx, t.Node(), t.Driver, false)
}

// awaitCount waits for the driver's count in CSINode for as long as an answer may take. That it does not come is for the invariants to say.
func (t Target) awaitCount(ctx context.Context, want int64) {
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, reportedAfter, true, func(ctx context.Context) (bool, error) {
		n, err := t.Client.StorageV1().CSINodes().Get(ctx, t.Node(), metav1.GetOptions{})
		if err != nil {
			return false, nil // asked again
		}
		e := t.entry(n)
		return e != nil && e.Allocatable != nil && e.Allocatable.Count != nil && int64(*e.Allocatable.Count) == want, nil
	})
}
