// Package steady is the reference CSI driver: one that does everything right that attach capacity asks of a driver.
//
// It serves Identity, Controller (create and delete, publish and unpublish) and Node (bind mounts of a folder per volume) of CSI v1, without staging. How many
// volumes a node takes is decided by the package policy and asked for in NodeGetInfo; whether one more volume may be attached is decided by
// the backend, at each attach. Its errors carry the code that the CSI specification gives them (codes.go).
//
// Controller and node are one program, in one process or in two. A controller of its own process cannot tell the nodes' policies of a refused
// attach, so each policy also reads it from the quota itself: a node that the backend counts as full is one where an attach is refused.
//
// Volumes are the backend's, by name and without content there. It takes no snapshots, expands nothing, and formats no file system. The optional Mistakes make a broken
// driver of it; that is all that the package knows of them.
package steady

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"headroom/drivers/steady/policy"
	"headroom/e2e/framework/history"
)

// SecretKey is the key of the token in the secrets of ControllerPublishVolume.
const SecretKey = "token"

// TopologyKey is the topology key under which nodes of the driver say their zone. It carries the driver's name, so that several drivers can
// label one node.
func TopologyKey(driverName string) string { return driverName + "/zone" }

// Backend is what attaches volumes and knows the quota.
type Backend interface {
	policy.Backend
	Attach(ctx context.Context, node, volume string, readOnly bool, secret string) (history.Quota, error)
	Detach(ctx context.Context, node, volume string) error
	// Find returns the node that has volume, "" when none has.
	Find(ctx context.Context, volume string) (string, error)
	CreateVolume(ctx context.Context, volume string) error
	DeleteVolume(ctx context.Context, volume string) error
}

// Mode is which services a process serves beside Identity.
type Mode string

// Modes of a process.
const (
	ModeNode       Mode = "node"
	ModeController Mode = "controller"
	ModeAll        Mode = "all"
)

// Options describe one instance of the driver.
type Options struct {
	Mode       Mode
	DriverName string
	// NodeID is the CSI node id and the backend's name of the node; needed unless Mode is ModeController.
	NodeID string
	// Zone is reported as topology when set.
	Zone string
	// StateDir holds the volumes' folders and what a restart must know.
	StateDir string
	// Release is the driver's own, as in its claim to the node's lease.
	Release int64
	Backend Backend
	// Policy is the capacity of this node, nil with ModeController. The Driver does not run or close it.
	Policy *policy.Policy
	// Mistakes are none in the reference driver.
	Mistakes Mistakes
	// Log takes one line for each call that fails; nil discards them.
	Log io.Writer
}

// Driver is one instance.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	opts Options
	log  *log.Logger
	// volumes is nil with ModeController.
	volumes *volumes
}

// described reports what is missing of the description of an instance; what it works with comes later.
func (o Options) described() error {
	switch o.Mode {
	case ModeController:
	case ModeNode, ModeAll:
		if o.NodeID == "" || o.StateDir == "" {
			return fmt.Errorf("mode %q: want a node id and a state directory, got %q and %q", o.Mode, o.NodeID, o.StateDir)
		}
	default:
		return fmt.Errorf("mode %q: want %q, %q or %q", o.Mode, ModeNode, ModeController, ModeAll)
	}
	if o.DriverName == "" {
		return errors.New("driver name: want one")
	}
	return nil
}

// New returns a driver that is not serving yet.
func New(o Options) (*Driver, error) {
	if err := o.described(); err != nil {
		return nil, err
	}
	if o.Backend == nil {
		return nil, errors.New("backend: want one")
	}
	node := o.Mode != ModeController
	if node && o.Policy == nil {
		return nil, fmt.Errorf("mode %q: want a policy", o.Mode)
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	d := &Driver{opts: o, log: log.New(o.Log, "steady: ", log.LstdFlags|log.Lmicroseconds)}
	if node {
		d.volumes = newVolumes(o.StateDir)
	}
	return d, nil
}

// Attachments counts the volumes that are in use on the node whose state is in stateDir, for the policy.
func Attachments(stateDir string) int64 { return newVolumes(stateDir).inUse() }

// StateFile is where the capacity of a node is kept in stateDir.
func StateFile(stateDir string) policy.FileStore {
	return policy.FileStore(filepath.Join(stateDir, "capacity.json"))
}

// LeaseFile is where the lease of a node is kept in stateDir, for all releases that run there.
func LeaseFile(stateDir string) policy.FileLease {
	return policy.FileLease(filepath.Join(stateDir, "lease.json"))
}

// stopBound is how long calls under way may take after the driver was told to stop; then they are cut off.
const stopBound = 5 * time.Second

// Serve serves on l until ctx ends, then lets calls under way finish, for a few seconds at most. It closes l.
func (d *Driver) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(d.logFailures))
	csi.RegisterIdentityServer(server, d)
	if d.opts.Mode != ModeNode {
		csi.RegisterControllerServer(server, d)
	}
	if d.opts.Mode != ModeController {
		csi.RegisterNodeServer(server, d)
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stopped := make(chan struct{})
	go func() { server.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(stopBound):
		server.Stop()
		<-stopped
	}
	return <-failed
}

func (d *Driver) logFailures(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	if err != nil {
		d.log.Printf("%s: %v", info.FullMethod, err)
	}
	return resp, err
}
