package steady_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/fixtures/quota"
)

func TestCreateCodes(t *testing.T) {
	type request = csi.CreateVolumeRequest
	for name, c := range map[string]struct {
		before func(*testing.T, cloud)
		change func(*request)
		want   codes.Code
	}{
		"made":                   {want: codes.OK},
		"made already":           {change: func(r *request) { r.Name = "v1" }, want: codes.OK},
		"no size":                {change: func(r *request) { r.CapacityRange = nil }, want: codes.OK},
		"name missing":           {change: func(r *request) { r.Name = "" }, want: codes.InvalidArgument},
		"capabilities missing":   {change: func(r *request) { r.VolumeCapabilities = nil }, want: codes.InvalidArgument},
		"block":                  {change: func(r *request) { r.VolumeCapabilities[0].AccessType = &csi.VolumeCapability_Block{} }, want: codes.InvalidArgument},
		"a clone":                {change: func(r *request) { r.VolumeContentSource = &csi.VolumeContentSource{} }, want: codes.InvalidArgument},
		"too large":              {change: func(r *request) { r.CapacityRange.RequiredBytes = 1<<40 + 1 }, want: codes.OutOfRange},
		"required above limit":   {change: func(r *request) { r.CapacityRange.LimitBytes = 1 }, want: codes.OutOfRange},
		"negative":               {change: func(r *request) { r.CapacityRange.RequiredBytes = -1 }, want: codes.OutOfRange},
		"backend throttles":      {before: fault(quota.Fault{Mode: quota.Throttle}), want: codes.Unavailable},
		"backend talks nonsense": {before: fault(quota.Fault{Mode: quota.Garbage}), want: codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			controller := csi.NewControllerClient(serve(t, cloud, nil))
			if c.before != nil {
				c.before(t, cloud)
			}
			req := &request{
				Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 20},
				VolumeCapabilities: []*csi.VolumeCapability{capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)},
			}
			if c.change != nil {
				c.change(req)
			}
			if _, err := controller.CreateVolume(bounded(t), req); status.Code(err) != c.want {
				t.Fatalf("want %s, got %v", c.want, err)
			}
		})
	}
}

// TestVolumeLives takes a volume through its life, each call twice.
func TestVolumeLives(t *testing.T) {
	cloud := newCloud(t)
	controller := csi.NewControllerClient(serve(t, cloud, nil))
	var id string
	for range 2 {
		made, err := controller.CreateVolume(bounded(t), &csi.CreateVolumeRequest{
			Name: "pvc-1", CapacityRange: &csi.CapacityRange{RequiredBytes: 5},
			VolumeCapabilities: []*csi.VolumeCapability{capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)},
		})
		must(t, err)
		if id = made.GetVolume().GetVolumeId(); id == "" || made.Volume.CapacityBytes != 5 {
			t.Fatalf("want an id and the size, got %v", made)
		}
	}
	_, err := controller.ControllerPublishVolume(bounded(t), publishRequest("n1", id))
	must(t, err)
	if _, err := controller.DeleteVolume(bounded(t), &csi.DeleteVolumeRequest{VolumeId: id}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a volume in use: want %s, got %v", codes.FailedPrecondition, err)
	}
	_, err = controller.ControllerUnpublishVolume(bounded(t), &csi.ControllerUnpublishVolumeRequest{NodeId: "n1", VolumeId: id})
	must(t, err)
	for range 2 {
		_, err := controller.DeleteVolume(bounded(t), &csi.DeleteVolumeRequest{VolumeId: id})
		must(t, err)
	}
	if state, err := cloud.State(bounded(t)); err != nil || len(state.Volumes) != 5 {
		t.Errorf("want the volumes that were there before, got %v, error %v", state.Volumes, err)
	}
	if _, err := controller.DeleteVolume(bounded(t), &csi.DeleteVolumeRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no id: want %s, got %v", codes.InvalidArgument, err)
	}
}
