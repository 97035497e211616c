package bridge

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers/steady"
)

// volumeSize is what is asked of CreateVolume, in bytes: the claims of specs ask for as much.
const volumeSize = 1 << 20

// volume is a driver's own volume.
type volume struct {
	id      string
	context map[string]string
}

// Keys of a publish context by which the node learns what the controller's stage made.
const (
	contextID      = "headroom.dev/volume-id"
	contextContext = "headroom.dev/volume-context"
)

// volume is the driver's volume for a handle on a node; it is made when it is asked for first.
func (b *Bridge) volume(ctx context.Context, at place, capability *csi.VolumeCapability, controller csi.ControllerClient) (volume, error) {
	var v volume
	var known bool
	var creates *bool
	b.note(func() {
		v, known = b.made[at]
		creates = b.creates
	})
	if known {
		return v, nil
	}
	if creates == nil {
		caps, err := controller.ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
		if err != nil {
			return v, err
		}
		can := false
		for _, c := range caps.Capabilities {
			can = can || c.GetRpc().GetType() == csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME
		}
		creates = &can
		b.note(func() { b.creates = creates })
	}
	v = volume{id: at.handle, context: b.opts.Context}
	if *creates {
		made, err := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: at.handle, CapacityRange: &csi.CapacityRange{RequiredBytes: volumeSize}, Parameters: b.opts.Parameters,
			VolumeCapabilities: []*csi.VolumeCapability{capability},
		})
		if err != nil {
			code := status.Code(err)
			if code == codes.ResourceExhausted {
				code = codes.Unavailable // a kubelet would read it as a full node
			}
			return v, status.Errorf(code, "CreateVolume of %q, before the attach: %s", at.handle, status.Convert(err).Message())
		}
		v = volume{id: made.GetVolume().GetVolumeId(), context: made.GetVolume().GetVolumeContext()}
	}
	b.note(func() { b.made[at] = v })
	return v, nil
}

// create lets the driver make a volume that an external-provisioner asks for. The backend gets to know it, for attaches.
func (b *Bridge) create(ctx context.Context, r *csi.CreateVolumeRequest, controller csi.ControllerClient) (*csi.CreateVolumeResponse, error) {
	answer, err := controller.CreateVolume(ctx, r)
	if err != nil {
		return nil, err
	}
	id := answer.GetVolume().GetVolumeId()
	if b.opts.Backend != nil && id != "" {
		if err := b.opts.Backend.CreateVolume(ctx, id); err != nil {
			return nil, status.Error(steady.CodeOf(ctx, err), err.Error())
		}
	}
	b.note(func() { b.provisioned[id] = true })
	return answer, nil
}

// remove lets the driver delete a volume, which the backend then forgets.
func (b *Bridge) remove(ctx context.Context, r *csi.DeleteVolumeRequest, controller csi.ControllerClient) (*csi.DeleteVolumeResponse, error) {
	answer, err := controller.DeleteVolume(ctx, r)
	if err != nil {
		return nil, err
	}
	if b.opts.Backend != nil && r.VolumeId != "" {
		if err := b.opts.Backend.DeleteVolume(ctx, r.VolumeId); err != nil {
			return nil, status.Error(steady.CodeOf(ctx, err), err.Error())
		}
	}
	b.note(func() { delete(b.provisioned, r.VolumeId) })
	return answer, nil
}

// handled says whether a handle stands for a volume that the bridge makes; others are the driver's ids.
func (b *Bridge) handled(handle string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opts.Volumes && !b.provisioned[handle]
}

// pack adds what a node must know to the publish context.
func (v volume) pack(handle string, in map[string]string) map[string]string {
	if v.id == handle && len(v.context) == 0 {
		return in
	}
	out := maps.Clone(in)
	if out == nil {
		out = map[string]string{}
	}
	text, _ := json.Marshal(v.context) // a map of texts always encodes
	out[contextID], out[contextContext] = v.id, string(text)
	return out
}

// onNode is what the driver is called with for a handle: it remembers what the publish context says, and takes it out.
func (b *Bridge) onNode(handle string, attributes, publish map[string]string) (id string, volumeContext, publishContext map[string]string) {
	id, packed := publish[contextID]
	if !packed {
		return handle, attributes, publish
	}
	v := volume{id: id}
	if json.Unmarshal([]byte(publish[contextContext]), &v.context) != nil {
		v.context = nil // nobody but pack writes it
	}
	b.note(func() { b.made[place{b.opts.Node, handle}] = v })
	publish = maps.Clone(publish)
	delete(publish, contextID)
	delete(publish, contextContext)
	return id, v.context, publish
}

// id is the driver's id of a handle on the stage's node.
func (b *Bridge) id(handle string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.made[place{b.opts.Node, handle}]; ok {
		return v.id
	}
	return handle
}
