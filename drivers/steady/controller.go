package steady

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/e2e/framework/history"
)

// callBound ends a controller call that has no deadline of its own, or a later one.
const callBound = time.Minute

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_READONLY,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return out, nil
}

// ControllerPublishVolume implements csi.ControllerServer: one attach in the backend, which decides.
func (d *Driver) ControllerPublishVolume(ctx context.Context, req *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	cause, err := d.publish(ctx, req)
	if err == nil {
		return &csi.ControllerPublishVolumeResponse{}, nil
	}
	right := status.Code(err)
	if d.opts.Mistakes.Code == nil {
		return nil, err
	}
	return nil, status.Error(d.opts.Mistakes.Code(cause, right), status.Convert(err).Message())
}

// publish returns how it failed as the caller is to be told, and the cause of it.
func (d *Driver) publish(ctx context.Context, req *csi.ControllerPublishVolumeRequest) (cause, err error) {
	switch {
	case req.GetVolumeId() == "":
		err = invalid("volume_id: want one")
	case req.GetNodeId() == "":
		err = invalid("node_id: want one")
	default:
		err = checkCapability(req.GetVolumeCapability())
	}
	if err != nil {
		return err, err
	}
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	_, cause = d.opts.Backend.Attach(ctx, req.NodeId, req.VolumeId, req.Readonly, req.Secrets[SecretKey])
	if cause == nil {
		return nil, nil
	}
	if reasonOf(cause) == history.ReasonFull && d.opts.Policy != nil && req.NodeId == d.opts.NodeID {
		d.opts.Policy.Refused()
	}
	return cause, status.Error(CodeOf(ctx, cause), cause.Error())
}

// ControllerUnpublishVolume implements csi.ControllerServer. A volume or node that the backend does not know is not attached: done. Without a node the
// volume goes off whichever node has it: there is at most one.
func (d *Driver) ControllerUnpublishVolume(
	ctx context.Context, req *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, invalid("volume_id: want one")
	}
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	if err := d.unpublish(ctx, req.NodeId, req.VolumeId); err != nil {
		if code := CodeOf(ctx, err); code != codes.NotFound {
			return nil, status.Error(code, err.Error())
		}
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// unpublish takes a volume off a node, or off the one that has it. The error is the backend's.
func (d *Driver) unpublish(ctx context.Context, node, volume string) error {
	if node == "" {
		has, err := d.opts.Backend.Find(ctx, volume)
		if err != nil || has == "" {
			return err
		}
		node = has
	}
	return d.opts.Backend.Detach(ctx, node, volume)
}

// checkCapability accepts mounted volumes for one node.
func checkCapability(c *csi.VolumeCapability) error {
	switch {
	case c == nil:
		return invalid("volume_capability: want one")
	case c.GetBlock() != nil:
		return invalid("volume_capability: block volumes are not supported, want mount")
	case c.GetMount() == nil:
		return invalid("volume_capability: want an access type, mount")
	}
	switch mode := c.GetAccessMode().GetMode(); mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return nil
	case csi.VolumeCapability_AccessMode_UNKNOWN:
		return invalid("volume_capability.access_mode: want one")
	default:
		return invalid("volume_capability.access_mode: %s is not supported, want one of a single node", mode)
	}
}
