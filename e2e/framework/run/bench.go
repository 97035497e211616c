package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/workload"
	"headroom/fixtures/quota"
)

// Shortest is the shortest period that the API accepts (CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds).
const Shortest = 10 * time.Second

// Never is a period after which no spec still runs: with it nothing refreshes a count but a registration and a failed attach.
const Never = time.Hour

// Node is a node of a bench, as the backend knows it.
type Node struct {
	// Limit is how many volumes the backend lets be attached; Foreign of them are taken outside Kubernetes.
	Limit, Foreign int64
	// AnyLimit says that the spec can do with any limit above 0; Limit is what it gets where it is Headroom's to choose.
	AnyLimit bool
	Zone     string
}

// Setup is what a spec needs of the cluster.
type Setup struct {
	// Nodes are made for this spec alone.
	Nodes []Node
	// Changes says that limits, foreign attachments or the service that knows them change during the spec.
	Changes bool
	// Releases says that the driver is replaced by another release.
	Releases bool
	// Period is how often the kubelet asks; 0 means that the CSIDriver has none.
	Period time.Duration
	// Reserved is what Reserve kept for this bench; nil makes NewBench reserve.
	Reserved *Reservation
}

// Reservation is a bench's scope and the names of its nodes.
type Reservation struct {
	Scope string
	Nodes []string
}

// Reserve keeps the nodes of a setup, after waiting for those that other benches have. What the cluster can never give is a *cluster.UnsupportedError.
func (s *Session) Reserve(ctx context.Context, setup Setup) (*Reservation, error) {
	s.mu.Lock()
	s.count++
	scope := fmt.Sprintf("%s-%d", s.process, s.count)
	s.mu.Unlock()
	return s.reserve(ctx, scope, setup)
}

// reserve is Reserve with a scope that no other bench of the run has.
func (s *Session) reserve(ctx context.Context, scope string, setup Setup) (*Reservation, error) {
	r := &Reservation{Scope: scope}
	var specs []cluster.NodeSpec
	for i, n := range setup.Nodes {
		specs = append(specs, cluster.NodeSpec{Name: fmt.Sprintf("%s-n%d", r.Scope, i+1), Zone: n.Zone})
	}
	var err error
	r.Nodes, err = s.Cluster.Reserve(ctx, specs)
	return r, err
}

// Bench is a spec's own part of the run: a driver under a name of its own, nodes that run it, and a namespace. Nothing is shared with other specs but
// the control plane and the backend.
type Bench struct {
	*Session
	*workload.Set
	// Scope is the bench's id; every event of the spec carries it.
	Scope string
	// Driver is the CSI driver's name.
	Driver string
	// Nodes are the names of the nodes.
	Nodes []string
	// Setup is what was asked for.
	Setup Setup
}

// NewBench makes the bench. On error nothing of it is left.
func (s *Session) NewBench(ctx context.Context, setup Setup) (_ *Bench, err error) {
	kept := setup.Reserved
	if kept == nil {
		if kept, err = s.Reserve(ctx, setup); err != nil {
			return nil, err
		}
	}
	return s.newBench(ctx, kept, setup)
}

// newBench is NewBench with what was reserved for it.
func (s *Session) newBench(ctx context.Context, kept *Reservation, setup Setup) (_ *Bench, err error) {
	scope := kept.Scope
	b := &Bench{Session: s, Scope: scope, Driver: scope + "." + s.Definition + ".headroom.test", Nodes: kept.Nodes, Setup: setup}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Remove(context.WithoutCancel(ctx)))
		}
	}()
	if err := b.makeDriver(ctx); err != nil {
		return nil, err
	}
	if err := b.makeNodes(ctx); err != nil {
		return nil, err
	}
	if b.Set, err = workload.New(ctx, s.Client, backend{s.Quota}, s.work, scope, b.Driver); err != nil {
		return b, cluster.Environment("make the namespace", err)
	}
	b.Set.Stretch = s.Stretch
	if d := s.Header.Params.Driver; d.Dynamic {
		b.Set.Dynamic = &workload.Dynamic{Parameters: d.Parameters}
	}
	return b, nil
}

func (b *Bench) makeDriver(ctx context.Context) error {
	attach, info := true, false
	driver := &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: b.Driver, Labels: map[string]string{workload.ScopeLabel: b.Scope}},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &attach, PodInfoOnMount: &info},
	}
	if b.Setup.Period > 0 {
		seconds := int64(b.Setup.Period / time.Second)
		driver.Spec.NodeAllocatableUpdatePeriodSeconds = &seconds
	}
	if _, err := b.Client.StorageV1().CSIDrivers().Create(ctx, driver, metav1.CreateOptions{}); err != nil {
		return cluster.Environment("create the CSIDriver", err)
	}
	return b.Cluster.AddDriver(ctx, cluster.DriverSpec{Name: b.Driver, Definition: b.Definition})
}

// makeNodes starts all nodes at once.
func (b *Bench) makeNodes(ctx context.Context) error {
	errs := make([]error, len(b.Nodes))
	var all sync.WaitGroup
	for i, n := range b.Setup.Nodes {
		all.Go(func() {
			to := quota.NodeConfig{Limit: n.Limit, Foreign: n.Foreign, Zone: n.Zone}
			if b.Header.Params.Driver.Limited() {
				if err := b.Quota.AddNode(ctx, b.Nodes[i], to); err != nil {
					errs[i] = cluster.Environment("add a node to the backend", err)
					return
				}
			}
			errs[i] = b.Cluster.AddNode(ctx, cluster.NodeSpec{
				Name: b.Nodes[i], Zone: n.Zone, Drivers: []string{b.Driver}, Limit: n.Limit, Labels: map[string]string{workload.ScopeLabel: b.Scope},
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Reclaim ends the spec's load and has the volumes of its claims deleted, where external-provisioner makes them. A volume that stays is a
// *workload.ProvisionError; what else keeps them from going shows in Remove, and is for the invariants.
func (b *Bench) Reclaim(ctx context.Context) error {
	d := b.Header.Params.Driver
	if !d.Dynamic {
		return nil
	}
	if d.Limited() {
		if err := b.Quota.Heal(ctx, b.Nodes...); err != nil {
			return cluster.Environment("heal the backend", err)
		}
	}
	err := b.Set.Reclaim(ctx)
	var stays *workload.ProvisionError
	if errors.As(err, &stays) && ctx.Err() == nil {
		return err
	}
	return nil
}

// Remove takes the bench away: pods and volumes first, as a user would, then nodes, driver and quotas. It goes on after an error.
func (b *Bench) Remove(ctx context.Context) error {
	var errs []error
	if b.Header.Params.Driver.Limited() {
		errs = append(errs, b.Quota.Heal(ctx, b.Nodes...))
	}
	if b.Set != nil {
		errs = append(errs, b.Set.Remove(ctx))
	}
	gone := make([]error, len(b.Nodes))
	var all sync.WaitGroup
	for i, name := range b.Nodes {
		all.Go(func() {
			gone[i] = errors.Join(b.Cluster.RemoveNode(ctx, name), ignoreMissing(b.Quota.ForceRemoveNode(ctx, name)))
		})
	}
	all.Wait()
	errs = append(errs, gone...)
	errs = append(errs, b.Cluster.RemoveDriver(ctx, b.Driver))
	if err := b.Client.StorageV1().CSIDrivers().Delete(ctx, b.Driver, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ignoreMissing drops the backend's answer that there was nothing to remove.
func ignoreMissing(err error) error {
	var c *quota.ControlError
	if errors.As(err, &c) && c.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// On selects the bench's i-th node, counted from 0; without an argument, all of them.
func (b *Bench) On(i ...int) map[string]string {
	selector := map[string]string{workload.ScopeLabel: b.Scope}
	if len(i) > 0 {
		selector["kubernetes.io/hostname"] = b.Nodes[i[0]]
	}
	return selector
}

// backend lends the quota backend to workloads.
type backend struct{ control *quota.Control }

func (b backend) AddVolume(ctx context.Context, handle, zone, secret string) error {
	return cluster.Environment("add a volume to the backend", b.control.AddVolume(ctx, handle, quota.VolumeConfig{Zone: zone, Secret: secret}))
}

func (b backend) RemoveVolume(ctx context.Context, handle string) error {
	return cluster.Environment("remove a volume from the backend", ignoreMissing(b.control.ForceRemoveVolume(ctx, handle)))
}
