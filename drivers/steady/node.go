package steady

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetCapabilities implements csi.NodeServer: none, and so no staging.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodeGetInfo implements csi.NodeServer. Its count is at least 1; it fails only when the caller is gone.
func (d *Driver) NodeGetInfo(ctx context.Context, _ *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	answer, err := d.opts.Policy.Answer(ctx)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	out := &csi.NodeGetInfoResponse{NodeId: d.opts.NodeID, MaxVolumesPerNode: answer}
	if d.opts.Zone != "" {
		out.AccessibleTopology = &csi.Topology{Segments: map[string]string{TopologyKey(d.opts.DriverName): d.opts.Zone}}
	}
	if d.opts.Mistakes.Lease != nil {
		out = d.opts.Mistakes.Lease(d.opts.StateDir, d.opts.Release, d.opts.Policy.Holds(), out)
	}
	if d.opts.Mistakes.NodeInfo != nil {
		return d.opts.Mistakes.NodeInfo(ctx, out, d.opts.Policy.Failing())
	}
	return out, nil
}

// NodePublishVolume implements csi.NodeServer: a bind mount of the volume's folder.
func (d *Driver) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	switch {
	case req.GetVolumeId() == "":
		return nil, invalid("volume_id: want one")
	case req.GetTargetPath() == "":
		return nil, invalid("target_path: want one")
	}
	if err := checkCapability(req.GetVolumeCapability()); err != nil {
		return nil, err
	}
	err := d.volumes.publish(publication{Volume: req.VolumeId, Target: req.TargetPath, ReadOnly: req.Readonly})
	switch {
	case errors.Is(err, errPublishedOtherwise):
		return nil, status.Error(codes.AlreadyExists, err.Error())
	case err != nil:
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume implements csi.NodeServer.
func (d *Driver) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	switch {
	case req.GetVolumeId() == "":
		return nil, invalid("volume_id: want one")
	case req.GetTargetPath() == "":
		return nil, invalid("target_path: want one")
	}
	if err := d.volumes.unpublish(req.TargetPath); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
