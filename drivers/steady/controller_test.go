package steady_test

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
	"headroom/fixtures/quota"
)

type request = csi.ControllerPublishVolumeRequest

func TestPublishCodes(t *testing.T) {
	cases := map[string]struct {
		// before prepares the backend; attached are attached to n1 first.
		before   func(t *testing.T, c cloud)
		attached []string
		change   func(*request)
		want     codes.Code
	}{
		"attached":               {want: codes.OK},
		"attached already":       {attached: []string{"v1"}, want: codes.OK},
		"attached already, full": {attached: []string{"v1", "v2"}, want: codes.OK},
		"full":                   {attached: []string{"v2", "v3"}, want: codes.ResourceExhausted},
		"full by foreign ones":   {before: func(t *testing.T, c cloud) { must(t, c.SetForeign(bounded(t), "n1", 2)) }, want: codes.ResourceExhausted},
		"no such volume":         {change: func(r *request) { r.VolumeId = "none" }, want: codes.NotFound},
		"no such node":           {change: func(r *request) { r.NodeId = "none" }, want: codes.NotFound},
		"attached elsewhere":     {attached: []string{"v1"}, change: func(r *request) { r.NodeId = "n2" }, want: codes.FailedPrecondition},
		"wrong zone":             {change: func(r *request) { r.VolumeId = "in-b" }, want: codes.FailedPrecondition},
		"incompatible":           {attached: []string{"v1"}, change: func(r *request) { r.Readonly = true }, want: codes.AlreadyExists},
		"secret missing":         {change: func(r *request) { r.VolumeId = "locked" }, want: codes.Unauthenticated},
		"secret wrong":           {change: func(r *request) { r.VolumeId, r.Secrets = "locked", map[string]string{"token": "x"} }, want: codes.Unauthenticated},
		"secret right":           {change: func(r *request) { r.VolumeId, r.Secrets = "locked", map[string]string{"token": "sesame"} }, want: codes.OK},
		"volume id missing":      {change: func(r *request) { r.VolumeId = "" }, want: codes.InvalidArgument},
		"node id missing":        {change: func(r *request) { r.NodeId = "" }, want: codes.InvalidArgument},
		"capability missing":     {change: func(r *request) { r.VolumeCapability = nil }, want: codes.InvalidArgument},
		"access mode missing":    {change: func(r *request) { r.VolumeCapability.AccessMode = nil }, want: codes.InvalidArgument},
		"access type missing":    {change: func(r *request) { r.VolumeCapability.AccessType = nil }, want: codes.InvalidArgument},
		"access mode unsupported": {change: func(r *request) {
			r.VolumeCapability = capability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
		}, want: codes.InvalidArgument},
		"block":                  {change: func(r *request) { r.VolumeCapability.AccessType = &csi.VolumeCapability_Block{} }, want: codes.InvalidArgument},
		"backend forbids":        {before: fault(quota.Fault{Mode: quota.Forbidden}), want: codes.PermissionDenied},
		"backend fails":          {before: fault(quota.Fault{Mode: quota.Failing, Status: 500}), want: codes.Unavailable},
		"backend resets":         {before: fault(quota.Fault{Mode: quota.Refuse}), want: codes.Unavailable},
		"backend talks nonsense": {before: fault(quota.Fault{Mode: quota.Garbage}), want: codes.Unavailable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			controller := csi.NewControllerClient(serve(t, cloud, nil))
			for _, v := range c.attached {
				_, err := controller.ControllerPublishVolume(bounded(t), publishRequest("n1", v))
				must(t, err)
			}
			if c.before != nil {
				c.before(t, cloud)
			}
			req := publishRequest("n1", "v1")
			if c.change != nil {
				c.change(req)
			}
			if _, err := controller.ControllerPublishVolume(bounded(t), req); status.Code(err) != c.want {
				t.Fatalf("want %s, got %v", c.want, err)
			}
		})
	}
}

func fault(f quota.Fault) func(*testing.T, cloud) {
	return func(t *testing.T, c cloud) { t.Helper(); must(t, c.Inject(bounded(t), f)) }
}

// refusing is a backend that answers one error to everything.
type refusing struct{ err error }

func (r refusing) Get(context.Context, string) (history.Quota, error) { return history.Quota{}, r.err }
func (r refusing) Attach(context.Context, string, string, bool, string) (history.Quota, error) {
	return history.Quota{}, r.err
}
func (r refusing) Detach(context.Context, string, string) error { return r.err }
func (r refusing) Find(context.Context, string) (string, error) { return "", r.err }
func (r refusing) CreateVolume(context.Context, string) error   { return r.err }
func (r refusing) DeleteVolume(context.Context, string) error   { return r.err }

func TestCodesThatTheFixtureDoesNotGive(t *testing.T) {
	cases := map[string]struct {
		err  error
		want codes.Code
	}{
		"throttled":             {&quota.Error{Status: 429, Reason: history.ReasonThrottled}, codes.Unavailable},
		"bad request":           {&quota.Error{Status: 400, Reason: history.ReasonBadRequest}, codes.InvalidArgument},
		"unknown reason, 5xx":   {&quota.Error{Status: 502, Reason: "?"}, codes.Unavailable},
		"unknown reason, 4xx":   {&quota.Error{Status: 418, Reason: "?"}, codes.Internal},
		"a deadline, not ours":  {context.DeadlineExceeded, codes.Unavailable},
		"cancelled, not by us ": {context.Canceled, codes.Unavailable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			conn := serve(t, newCloud(t), func(o *steady.Options) { o.Backend = refusing{c.err} })
			controller := csi.NewControllerClient(conn)
			if _, err := controller.ControllerPublishVolume(bounded(t), publishRequest("n1", "v1")); status.Code(err) != c.want {
				t.Fatalf("publish: want %s, got %v", c.want, err)
			}
			for _, node := range []string{"n1", ""} {
				_, err := controller.ControllerUnpublishVolume(bounded(t), &csi.ControllerUnpublishVolumeRequest{NodeId: node, VolumeId: "v1"})
				if status.Code(err) != c.want {
					t.Fatalf("unpublish from node %q: want %s, got %v", node, c.want, err)
				}
			}
		})
	}
}

func TestOwnDeadlineIsCode4(t *testing.T) {
	cloud := newCloud(t)
	must(t, cloud.Inject(bounded(t), quota.Fault{Mode: quota.Hang}))
	ctx, cancel := context.WithTimeout(bounded(t), 200*time.Millisecond)
	defer cancel()
	// Called without gRPC in between, whose client would make up the same code itself.
	d, err := steady.New(steady.Options{Mode: steady.ModeController, DriverName: driverName, Backend: quota.NewClient(cloud.url, "controller")})
	must(t, err)
	if _, err := d.ControllerPublishVolume(ctx, publishRequest("n1", "v1")); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("want DEADLINE_EXCEEDED, got %v", err)
	}
	ctx, cancel = context.WithCancel(bounded(t))
	cancel()
	if _, err := d.ControllerPublishVolume(ctx, publishRequest("n1", "v1")); status.Code(err) != codes.Canceled {
		t.Fatalf("want CANCELED, got %v", err)
	}
}

func TestUnpublish(t *testing.T) {
	cloud := newCloud(t)
	controller := csi.NewControllerClient(serve(t, cloud, nil))
	if _, err := controller.ControllerPublishVolume(bounded(t), publishRequest("n1", "v1")); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		node, volume string
		want         codes.Code
	}{
		{"n1", "v1", codes.OK}, {"n1", "v1", codes.OK}, {"n1", "v2", codes.OK}, {"n1", "none", codes.OK}, {"none", "v1", codes.OK},
		{"", "v1", codes.OK}, {"", "none", codes.OK}, {"n1", "", codes.InvalidArgument},
	}
	for _, c := range cases {
		_, err := controller.ControllerUnpublishVolume(bounded(t), &csi.ControllerUnpublishVolumeRequest{NodeId: c.node, VolumeId: c.volume})
		if status.Code(err) != c.want {
			t.Errorf("node %q, volume %q: want %s, got %v", c.node, c.volume, c.want, err)
		}
	}
	state, err := cloud.State(bounded(t))
	must(t, err)
	if n := len(state.Nodes["n1"].Attachments); n != 0 {
		t.Fatalf("want nothing attached, got %d", n)
	}
}

// TestUnpublishWithoutNode takes a volume off whichever node has it, and no other volume with it.
func TestUnpublishWithoutNode(t *testing.T) {
	cloud := newCloud(t)
	controller := csi.NewControllerClient(serve(t, cloud, nil))
	for volume, node := range map[string]string{"v1": "n1", "v2": "n2", "v3": "n2"} {
		if _, err := controller.ControllerPublishVolume(bounded(t), publishRequest(node, volume)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := controller.ControllerUnpublishVolume(bounded(t), &csi.ControllerUnpublishVolumeRequest{VolumeId: "v2"}); err != nil {
		t.Fatal(err)
	}
	state, err := cloud.State(bounded(t))
	must(t, err)
	for volume, want := range map[string]string{"v1": "n1", "v2": "", "v3": "n2"} {
		if got := state.Volumes[volume].Node; got != want {
			t.Errorf("volume %q: want node %q, got %q", volume, want, got)
		}
	}
}

func TestRepeatedPublishTakesOneSlot(t *testing.T) {
	cloud := newCloud(t)
	controller := csi.NewControllerClient(serve(t, cloud, nil))
	for range 3 {
		if _, err := controller.ControllerPublishVolume(bounded(t), publishRequest("n1", "v1")); err != nil {
			t.Fatal(err)
		}
	}
	state, err := cloud.State(bounded(t))
	must(t, err)
	if n := state.Nodes["n1"].Quota.Attached; n != 1 {
		t.Fatalf("want 1 attached, got %d", n)
	}
}
