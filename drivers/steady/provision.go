package steady

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxVolumeSize is the largest size that a volume is made with, in bytes: one has no content that could grow.
const maxVolumeSize = 1 << 40

// CreateVolume implements csi.ControllerServer. The volume's id is its name, so that a repeated call finds the volume that is there; every size up to
// maxVolumeSize fits it.
func (d *Driver) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	size, limit := req.GetCapacityRange().GetRequiredBytes(), req.GetCapacityRange().GetLimitBytes()
	switch {
	case req.GetName() == "":
		return nil, invalid("name: want one")
	case len(req.GetVolumeCapabilities()) == 0:
		return nil, invalid("volume_capabilities: want one")
	case req.GetVolumeContentSource() != nil:
		return nil, invalid("volume_content_source: snapshots and clones are not supported")
	case size < 0 || limit < 0 || limit > 0 && size > limit:
		return nil, status.Errorf(codes.OutOfRange, "capacity_range: want 0 <= required <= limit, got %d and %d", size, limit)
	case size > maxVolumeSize:
		return nil, status.Errorf(codes.OutOfRange, "capacity_range: want at most %d bytes, got %d", int64(maxVolumeSize), size)
	}
	for _, c := range req.VolumeCapabilities {
		if err := checkCapability(c); err != nil {
			return nil, err
		}
	}
	err := d.inBackend(ctx, d.opts.Mistakes.Create, func(ctx context.Context) error { return d.opts.Backend.CreateVolume(ctx, req.Name) })
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: req.Name, CapacityBytes: size}}, nil
}

// DeleteVolume implements csi.ControllerServer. A volume that is attached is in use; one that the backend does not know is gone already.
func (d *Driver) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, invalid("volume_id: want one")
	}
	err := d.inBackend(ctx, d.opts.Mistakes.Delete, func(ctx context.Context) error { return d.opts.Backend.DeleteVolume(ctx, req.VolumeId) })
	if err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// inBackend lets do change a volume, or a mistake in its place.
func (d *Driver) inBackend(ctx context.Context, mistake func(context.Context, func() error) error, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	right := func() error {
		err := do(ctx)
		if err == nil {
			return nil
		}
		return status.Error(CodeOf(ctx, err), err.Error())
	}
	if mistake != nil {
		return mistake(ctx, right)
	}
	return right()
}
