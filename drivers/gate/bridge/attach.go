package bridge

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"headroom/drivers/steady"
)

// undoBound is how long the backend may take to give a slot back that the driver had no use for.
const undoBound = 5 * time.Second

// attach takes a slot in the backend, then lets the driver attach. A driver that refuses for certain gives the slot back.
func (b *Bridge) attach(
	ctx context.Context, r *csi.ControllerPublishVolumeRequest, controller csi.ControllerClient, node csi.NodeClient,
) (proto.Message, error) {
	at := place{node: r.NodeId, handle: r.VolumeId}
	whole := r.NodeId != "" && r.VolumeId != "" && r.VolumeCapability != nil // what is not is the driver's to refuse
	if b.opts.Backend != nil && whole {
		if _, err := b.opts.Backend.Attach(ctx, r.NodeId, r.VolumeId, r.Readonly, r.Secrets[steady.SecretKey]); err != nil {
			return nil, status.Error(steady.CodeOf(ctx, err), err.Error())
		}
	}
	answer, err := b.attachInDriver(ctx, r, whole, controller, node)
	var had bool
	b.note(func() {
		had = b.attached[at]
		b.attached[at] = had || err == nil
	})
	if err == nil {
		return answer, nil
	}
	if b.opts.Backend != nil && whole && !had && certain(status.Code(err)) {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
		defer cancel()
		if lost := b.opts.Backend.Detach(undo, at.node, at.handle); lost != nil {
			return nil, status.Errorf(status.Code(err), "%s (and the gate's slot is not given back: %v)", status.Convert(err).Message(), lost)
		}
	}
	return nil, err
}

func (b *Bridge) attachInDriver(
	ctx context.Context, r *csi.ControllerPublishVolumeRequest, whole bool, controller csi.ControllerClient, node csi.NodeClient,
) (*csi.ControllerPublishVolumeResponse, error) {
	at := place{node: r.NodeId, handle: r.VolumeId}
	var v volume
	var err error
	handled := whole && b.handled(r.VolumeId)
	if handled {
		if v, err = b.volume(ctx, at, r.VolumeCapability, controller); err != nil {
			return nil, err
		}
		r.VolumeId, r.VolumeContext = v.id, v.context
	}
	if r.NodeId, err = b.driversNode(ctx, r.NodeId, node); err != nil {
		return nil, err
	}
	answer, err := controller.ControllerPublishVolume(ctx, r)
	if err == nil && handled {
		answer.PublishContext = v.pack(at.handle, answer.PublishContext)
	}
	return answer, err
}

// certain says whether a failed call has certainly attached nothing.
func certain(code codes.Code) bool {
	switch code {
	case codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.Unavailable, codes.Unknown:
		return false
	}
	return true
}

// detach lets the driver detach, then gives the slot back.
func (b *Bridge) detach(
	ctx context.Context, r *csi.ControllerUnpublishVolumeRequest, controller csi.ControllerClient, node csi.NodeClient,
) (proto.Message, error) {
	at := place{node: r.NodeId, handle: r.VolumeId}
	unmade := false
	b.note(func() {
		if v, ok := b.made[at]; ok {
			r.VolumeId = v.id
		} else {
			unmade = b.opts.Volumes && !b.provisioned[at.handle] && (b.creates == nil || *b.creates)
		}
	})
	answer := &csi.ControllerUnpublishVolumeResponse{}
	if !unmade { // else the driver never heard of it: a handle of ours may not even have the form of its ids
		var err error
		if r.NodeId, err = b.driversNode(ctx, r.NodeId, node); err != nil {
			return nil, err
		}
		if answer, err = controller.ControllerUnpublishVolume(ctx, r); err != nil {
			return nil, err
		}
	}
	b.note(func() { delete(b.attached, at) })
	if b.opts.Backend != nil {
		if err := b.opts.Backend.Detach(ctx, at.node, at.handle); err != nil {
			if code := steady.CodeOf(ctx, err); code != codes.NotFound {
				return nil, status.Error(code, err.Error())
			}
		}
	}
	return answer, nil
}

// driversNode is what the driver itself calls a node.
func (b *Bridge) driversNode(ctx context.Context, name string, node csi.NodeClient) (string, error) {
	if !b.opts.NodeIDs || name == "" {
		return name, nil
	}
	var id string
	b.note(func() { id = b.nodeIDs[name] })
	if id != "" {
		return id, nil
	}
	info, err := node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return "", err
	}
	b.note(func() { b.nodeIDs[name] = info.NodeId })
	return info.NodeId, nil
}
