package hostpathlike

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers/bindmount"
)

// NodeGetCapabilities implements csi.NodeServer.
func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{
		Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}},
	}}}, nil
}

// change looks a volume up and lets f change it under the lock, which is saved then. f may be told of no volume only by NOT_FOUND.
func (d *driver) change(id string, f func(*volume) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[id]
	if v == nil {
		return status.Errorf(codes.NotFound, "volume id %s does not exist in the volumes list", id)
	}
	if err := f(v); err != nil {
		return err
	}
	if err := d.save(); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// wanted refuses a node call that lacks what it needs.
func wanted(volume, path, pathName string, capability *csi.VolumeCapability, needsCapability bool) error {
	switch {
	case needsCapability && capability == nil:
		return status.Error(codes.InvalidArgument, "Volume capability missing in request")
	case volume == "":
		return status.Error(codes.InvalidArgument, "Volume ID missing in request")
	case path == "":
		return status.Errorf(codes.InvalidArgument, "%s missing in request", pathName)
	}
	return nil
}

// NodeStageVolume implements csi.NodeServer: it notes the path.
func (d *driver) NodeStageVolume(_ context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := wanted(req.GetVolumeId(), req.GetStagingTargetPath(), "Target path", req.GetVolumeCapability(), true); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, d.change(req.VolumeId, func(v *volume) error {
		switch {
		case v.Staged == req.StagingTargetPath:
		case v.Staged != "":
			return status.Errorf(codes.FailedPrecondition, "volume %q is already staged at %v", v.ID, v.Staged)
		}
		v.Staged = req.StagingTargetPath
		return nil
	})
}

// NodeUnstageVolume implements csi.NodeServer.
func (d *driver) NodeUnstageVolume(_ context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := wanted(req.GetVolumeId(), req.GetStagingTargetPath(), "Target path", nil, false); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, d.change(req.VolumeId, func(v *volume) error {
		switch {
		case v.Staged != req.StagingTargetPath:
			return nil
		case len(v.Published) > 0:
			return status.Errorf(codes.Internal, "volume %q is still published at %q on node %q", v.ID, v.Published, d.nodeID)
		}
		v.Staged = ""
		return nil
	})
}

// NodePublishVolume implements csi.NodeServer: a bind mount of the volume's folder.
func (d *driver) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := wanted(req.GetVolumeId(), req.GetTargetPath(), "Target path", req.GetVolumeCapability(), true); err != nil {
		return nil, err
	}
	if req.VolumeCapability.GetBlock() != nil {
		return nil, status.Error(codes.InvalidArgument, "block volumes are left out of this stand-in")
	}
	return &csi.NodePublishVolumeResponse{}, d.change(req.VolumeId, func(v *volume) error {
		switch {
		case v.Staged == "":
			return status.Errorf(codes.FailedPrecondition, "volume %q must be staged before publishing", v.ID)
		case v.Staged != req.StagingTargetPath:
			return status.Errorf(codes.InvalidArgument, "volume %q was staged at %v, not %q", v.ID, v.Staged, req.StagingTargetPath)
		}
		if err := d.mount(v.ID, req.TargetPath, req.Readonly); err != nil {
			return status.Errorf(codes.Internal, "failed to mount device: %v", err)
		}
		if !slices.Contains(v.Published, req.TargetPath) {
			v.Published = append(v.Published, req.TargetPath)
		}
		return nil
	})
}

func (d *driver) mount(id, target string, readOnly bool) error {
	source := filepath.Join(d.stateDir, id)
	for _, dir := range []string{source, target} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	if mounted, err := bindmount.Count(target); err != nil || mounted > 0 {
		return err
	}
	return bindmount.Bind(source, target, readOnly)
}

// NodeUnpublishVolume implements csi.NodeServer.
func (d *driver) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := wanted(req.GetVolumeId(), req.GetTargetPath(), "Target path", nil, false); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, d.change(req.VolumeId, func(v *volume) error {
		at := slices.Index(v.Published, req.TargetPath)
		if at < 0 {
			return nil // as after an answer that got lost
		}
		if err := bindmount.Remove(req.TargetPath); err != nil {
			return status.Errorf(codes.Internal, "unmount target path: %v", err)
		}
		v.Published = slices.Delete(v.Published, at, at+1)
		return nil
	})
}
