// Package bridge gives a driver what Headroom's specs need and it does not have: a quota that changes, volumes, node ids of Headroom's choice.
//
// Contract: a Bridge is a gate's stage, on a node or before a controller. What it is not asked to give passes unchanged, and the driver is asked first or
// as well: a driver that is down, or that refuses, shows as it would without it.
//
//   - Quota: NodeGetInfo answers what a policy of the reference driver's kind makes of the quota backend, and an attach takes a slot in the backend before
//     the driver is asked. What is judged of a limit then is the bridge's, never the driver's.
//   - Volumes: a handle of a spec becomes a volume that CreateVolume makes where it is attached first, under the handle as its name. A driver without
//     CreateVolume gets handles as they are. What an external-provisioner asks for is the driver's own: the bridge only makes it known to the backend.
//   - Node ids: a driver that cannot be told its node id is called by its own, and Kubernetes sees the node's name.
//
// It deletes no volumes: they go with the driver's state. It keeps what it knows in memory, which outlives the driver's processes.
package bridge

import (
	"context"
	"maps"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"headroom/drivers/steady/policy"
	"headroom/e2e/framework/history"
)

// Backend attaches volumes where the driver itself has no quota.
type Backend interface {
	Attach(ctx context.Context, node, volume string, readOnly bool, secret string) (history.Quota, error)
	Detach(ctx context.Context, node, volume string) error
	CreateVolume(ctx context.Context, volume string) error
	DeleteVolume(ctx context.Context, volume string) error
}

// Options say what the driver lacks.
type Options struct {
	// Node is the node's name; "" before a controller, whose calls name the node.
	Node string
	// Backend, when not nil, is asked at each attach and detach.
	Backend Backend
	// Policy, when not nil, is what NodeGetInfo answers. Its maker runs and closes it.
	Policy *policy.Policy
	// Volumes makes volumes for handles.
	Volumes bool
	// Parameters are those of CreateVolume; Context is the volume_context of volumes that are not made.
	Parameters, Context map[string]string
	// NodeIDs presents the driver's node under the node's name.
	NodeIDs bool
}

// Bridge is one stage.
type Bridge struct {
	opts Options

	mu sync.Mutex
	// creates says whether the driver makes volumes; nil until it was asked.
	creates *bool
	// made are the driver's volumes by node and handle; nodeIDs the driver's own ids by node.
	made    map[place]volume
	nodeIDs map[string]string
	// provisioned are the ids of volumes that others asked the driver to make.
	provisioned map[string]bool
	// attached are the attachments that both the backend and the driver have.
	attached map[place]bool
	// published are the target paths on the node, with their handles.
	published map[string]string
}

// place is a volume on a node.
type place struct{ node, handle string }

// New makes a stage.
func New(o Options) *Bridge {
	return &Bridge{
		opts: o, made: map[place]volume{}, nodeIDs: map[string]string{}, provisioned: map[string]bool{}, attached: map[place]bool{},
		published: map[string]string{},
	}
}

// Handles implements gate.Stage.
func (b *Bridge) Handles(method string) bool {
	switch method {
	case "NodeGetInfo":
		return b.opts.Policy != nil || b.opts.NodeIDs
	case "ControllerPublishVolume", "ControllerUnpublishVolume":
		return b.opts.Backend != nil || b.opts.Volumes || b.opts.NodeIDs
	case "CreateVolume", "DeleteVolume":
		return b.opts.Backend != nil || b.opts.Volumes
	case "NodePublishVolume", "NodeUnpublishVolume":
		return b.opts.Policy != nil || b.opts.Volumes
	case "NodeStageVolume", "NodeUnstageVolume", "NodeGetVolumeStats", "NodeExpandVolume":
		return b.opts.Volumes
	}
	return false
}

// Handle implements gate.Stage.
func (b *Bridge) Handle(ctx context.Context, method string, req proto.Message, driver grpc.ClientConnInterface) (proto.Message, error) {
	controller, node := csi.NewControllerClient(driver), csi.NewNodeClient(driver)
	switch r := req.(type) {
	case *csi.NodeGetInfoRequest:
		return b.info(ctx, r, node)
	case *csi.CreateVolumeRequest:
		return b.create(ctx, r, controller)
	case *csi.DeleteVolumeRequest:
		return b.remove(ctx, r, controller)
	case *csi.ControllerPublishVolumeRequest:
		return b.attach(ctx, r, controller, node)
	case *csi.ControllerUnpublishVolumeRequest:
		return b.detach(ctx, r, controller, node)
	case *csi.NodeStageVolumeRequest:
		r.VolumeId, r.VolumeContext, r.PublishContext = b.onNode(r.VolumeId, r.VolumeContext, r.PublishContext)
		return node.NodeStageVolume(ctx, r)
	case *csi.NodePublishVolumeRequest:
		handle := r.VolumeId
		r.VolumeId, r.VolumeContext, r.PublishContext = b.onNode(r.VolumeId, r.VolumeContext, r.PublishContext)
		answer, err := node.NodePublishVolume(ctx, r)
		if err == nil {
			b.note(func() { b.published[r.TargetPath] = handle })
		}
		return answer, err
	case *csi.NodeUnpublishVolumeRequest:
		r.VolumeId = b.id(r.VolumeId)
		answer, err := node.NodeUnpublishVolume(ctx, r)
		if err == nil {
			b.note(func() { delete(b.published, r.TargetPath) })
		}
		return answer, err
	case *csi.NodeUnstageVolumeRequest:
		r.VolumeId = b.id(r.VolumeId)
		return node.NodeUnstageVolume(ctx, r)
	case *csi.NodeGetVolumeStatsRequest:
		r.VolumeId = b.id(r.VolumeId)
		return node.NodeGetVolumeStats(ctx, r)
	case *csi.NodeExpandVolumeRequest:
		r.VolumeId = b.id(r.VolumeId)
		return node.NodeExpandVolume(ctx, r)
	}
	return nil, status.Errorf(codes.Internal, "gate: %s has a request of type %T", method, req)
}

func (b *Bridge) note(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// Attachments counts the volumes that are published on the node, for the policy.
func (b *Bridge) Attachments() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	handles := map[string]bool{}
	for handle := range maps.Values(b.published) {
		handles[handle] = true
	}
	return int64(len(handles))
}

// info asks the driver, which must be there, and answers the limit in its place.
func (b *Bridge) info(ctx context.Context, r *csi.NodeGetInfoRequest, node csi.NodeClient) (proto.Message, error) {
	answer, err := node.NodeGetInfo(ctx, r)
	if err != nil {
		return nil, err
	}
	if b.opts.NodeIDs {
		answer.NodeId = b.opts.Node
	}
	if p := b.opts.Policy; p != nil {
		if answer.MaxVolumesPerNode, err = p.Answer(ctx); err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	return answer, nil
}
