package hostpathlike

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// vendorVersion is what GetPluginInfo tells; it is not a release of the driver that it stands in for.
const vendorVersion = "like-v1.17"

// GetPluginInfo implements csi.IdentityServer.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.driverName, VendorVersion: vendorVersion}, nil
}

// Probe implements csi.IdentityServer.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if d.enableTopology {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	out := &csi.GetPluginCapabilitiesResponse{}
	for _, s := range services {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: s}},
		})
	}
	return out, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	all := []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}
	if d.enableAttach {
		all = append(all, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range all {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return out, nil
}

// CreateVolume implements csi.ControllerServer.
func (d *driver) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	size, limit := req.GetCapacityRange().GetRequiredBytes(), req.GetCapacityRange().GetLimitBytes()
	switch {
	case req.GetName() == "":
		return nil, status.Error(codes.InvalidArgument, "Name missing in request")
	case req.GetVolumeCapabilities() == nil:
		return nil, status.Error(codes.InvalidArgument, "Volume Capabilities missing in request")
	case size < 0 || limit < 0:
		return nil, status.Error(codes.InvalidArgument, "cannot have negative capacity")
	case limit > 0 && size > limit:
		return nil, status.Error(codes.InvalidArgument, "capacity cannot exceed limit")
	case size > d.maxVolumeSize:
		return nil, status.Errorf(codes.OutOfRange, "Requested capacity %d exceeds maximum allowed %d", size, d.maxVolumeSize)
	}
	if size == 0 {
		size = limit
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.volumes {
		if v.Name != req.Name {
			continue
		}
		if v.Size < size || limit > 0 && v.Size > limit {
			return nil, status.Errorf(codes.AlreadyExists, "Volume with the same name: %s but with different size already exist", req.Name)
		}
		return d.created(v, req), nil
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	v := &volume{ID: fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), Name: req.Name, Size: size}
	d.volumes[v.ID] = v
	if err := d.save(); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return d.created(v, req), nil
}

func (d *driver) created(v *volume, req *csi.CreateVolumeRequest) *csi.CreateVolumeResponse {
	out := &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Size, VolumeContext: req.GetParameters()}}
	if d.enableTopology {
		out.Volume.AccessibleTopology = []*csi.Topology{d.topology()}
	}
	return out
}

// DeleteVolume implements csi.ControllerServer. A volume that is still attached goes too, with a warning in the driver that this stands in for.
func (d *driver) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "Volume ID missing in request")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.volumes, req.VolumeId)
	if err := d.save(); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ControllerPublishVolume implements csi.ControllerServer.
func (d *driver) ControllerPublishVolume(_ context.Context, req *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	switch {
	case !d.enableAttach:
		return nil, status.Error(codes.Unimplemented, "ControllerPublishVolume is not supported")
	case req.GetVolumeId() == "":
		return nil, status.Error(codes.InvalidArgument, "Volume ID cannot be empty")
	case req.GetNodeId() == "":
		return nil, status.Error(codes.InvalidArgument, "Node ID cannot be empty")
	case req.GetVolumeCapability() == nil:
		return nil, status.Error(codes.InvalidArgument, "Volume Capabilities cannot be empty")
	case req.NodeId != d.nodeID:
		return nil, status.Errorf(codes.NotFound, "Not matching Node ID %s to hostpath Node ID %s", req.NodeId, d.nodeID)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[req.VolumeId]
	switch {
	case v == nil:
		return nil, status.Errorf(codes.NotFound, "volume id %s does not exist in the volumes list", req.VolumeId)
	case v.Attached && v.ReadOnly != req.Readonly:
		return nil, status.Error(codes.AlreadyExists, "Volume published but has incompatible readonly flag")
	case v.Attached:
		return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{}}, nil
	case d.attachLimit > 0 && d.attachments() >= d.attachLimit:
		return nil, status.Errorf(codes.ResourceExhausted, "Cannot attach any more volumes to this node ('%s')", d.nodeID)
	}
	v.Attached, v.ReadOnly = true, req.Readonly
	if err := d.save(); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{}}, nil
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (d *driver) ControllerUnpublishVolume(_ context.Context, req *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	switch {
	case !d.enableAttach:
		return nil, status.Error(codes.Unimplemented, "ControllerUnpublishVolume is not supported")
	case req.GetVolumeId() == "":
		return nil, status.Error(codes.InvalidArgument, "Volume ID cannot be empty")
	case req.GetNodeId() != "" && req.NodeId != d.nodeID:
		return nil, status.Errorf(codes.NotFound, "Node ID %s does not match to expected Node ID %s", req.NodeId, d.nodeID)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.volumes[req.VolumeId]; v != nil {
		v.Attached = false
		if err := d.save(); err != nil {
			return nil, status.Errorf(codes.Internal, "could not update volume %s: %v", v.ID, err)
		}
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// mostRandom is the largest number that --attach-limit=-1 reports.
const mostRandom = 10

// NodeGetInfo implements csi.NodeServer.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	out := &csi.NodeGetInfoResponse{NodeId: d.nodeID, MaxVolumesPerNode: d.maxVolumesPerNode}
	switch {
	case d.attachLimit > 0:
		out.MaxVolumesPerNode = d.attachLimit
	case d.attachLimit < 0:
		out.MaxVolumesPerNode = 1 + mathrand.Int64N(mostRandom)
	}
	if d.enableTopology {
		out.AccessibleTopology = d.topology()
	}
	return out, nil
}

func (d *driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{topologyKey: d.nodeID}}
}
