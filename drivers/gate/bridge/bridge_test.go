package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"headroom/drivers/gate"
	"headroom/drivers/gate/bridge"
	"headroom/drivers/steady"
	"headroom/drivers/steady/policy"
	"headroom/e2e/framework/history"
	"headroom/fixtures/quota"
)

// plain is a driver that chooses its own node id and volume ids, and has no limit.
type plain struct {
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	mu        sync.Mutex
	creates   bool
	made      map[string]string // ids by name
	refuse    error             // of the next attach
	calls     []string
	nodeCalls []string
}

// seen are the calls so far.
func (p *plain) seen(list *[]string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(*list)
}

// refusing makes the next attach fail.
func (p *plain) refusing(code codes.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = status.Error(code, "on purpose")
}

const ownNode = "the-drivers-own"

func (p *plain) note(list *[]string, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

func (p *plain) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.creates {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME},
		}})
	}
	return out, nil
}

func (p *plain) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	p.note(&p.calls, "create %s %v", r.Name, r.Parameters)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made[r.Name] == "" {
		p.made[r.Name] = fmt.Sprintf("id-%d", len(p.made)+1)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: p.made[r.Name], VolumeContext: map[string]string{"made": "yes"}}}, nil
}

func (p *plain) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	p.note(&p.calls, "delete %s", r.VolumeId)
	return &csi.DeleteVolumeResponse{}, nil
}

func (p *plain) ControllerPublishVolume(_ context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	p.note(&p.calls, "attach %s to %s %v", r.VolumeId, r.NodeId, r.VolumeContext)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refuse; err != nil {
		p.refuse = nil
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"device": "d1"}}, nil
}

func (p *plain) ControllerUnpublishVolume(_ context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	p.note(&p.calls, "detach %s from %s", r.VolumeId, r.NodeId)
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (p *plain) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: ownNode}, nil
}

func (p *plain) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	p.note(&p.nodeCalls, "publish %s %v %v", r.VolumeId, r.VolumeContext, r.PublishContext)
	return &csi.NodePublishVolumeResponse{}, nil
}

func (p *plain) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	p.note(&p.nodeCalls, "unpublish %s", r.VolumeId)
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// rig is the driver behind a node's gate and a controller's, and a quota backend.
type rig struct {
	*plain
	*quota.Control
	client  *quota.Client
	node    csi.NodeClient
	control csi.ControllerClient
	events  string
}

func serve(t *testing.T, dir, name string, register func(*grpc.Server)) string {
	path := filepath.Join(dir, name)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(l) }() // it ends with Stop
	t.Cleanup(server.Stop)
	return path
}

func newRig(t *testing.T, limit int64, change func(*bridge.Options)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &rig{plain: &plain{creates: true, made: map[string]string{}}, events: t.TempDir()}
	driver := "unix://" + serve(t, dir, "d", func(s *grpc.Server) { csi.RegisterControllerServer(s, r.plain); csi.RegisterNodeServer(s, r.plain) })
	s := quota.NewServer(quota.Options{})
	data, control := httptest.NewServer(s.Data()), httptest.NewServer(s.Control())
	r.Control = quota.NewControl(control.URL, control.Client())
	t.Cleanup(func() {
		if err := r.Heal(context.Background()); err != nil { // calls that hang would keep the servers from closing
			t.Error(err)
		}
		data.Close()
		control.Close()
	})
	r.client = quota.NewClient(data.URL, "gate")
	for _, v := range []string{"v1", "v2", "v3"} {
		if err := r.AddVolume(t.Context(), v, quota.VolumeConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.AddNode(t.Context(), "n1", quota.NodeConfig{Limit: limit}); err != nil {
		t.Fatal(err)
	}
	conns := map[string]*grpc.ClientConn{}
	for node, o := range map[string]*bridge.Options{"n1": {Node: "n1"}, "": {}} {
		o.Volumes, o.NodeIDs, o.Backend, o.Parameters = true, true, r.client, map[string]string{"type": "fast"}
		change(o)
		if node != "" && o.Backend != nil {
			o.Policy, err = steady.Capacity(t.TempDir(), 1, policy.Options{
				Node: node, Backend: r.client, Config: policy.Config{MinInterval: time.Millisecond, CacheAge: 20 * time.Millisecond, LastGoodLife: time.Hour, QueryTimeout: time.Minute},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(o.Policy.Close)
		}
		source := history.PrefixCSI + "controller/d"
		if node != "" {
			source = history.PrefixCSI + node
		}
		w, err := history.Create(r.events, "r", source)
		if err != nil {
			t.Fatal(err)
		}
		g, err := gate.New(gate.Options{Listen: filepath.Join(dir, "g"+node), Driver: driver, DriverName: "d", Node: node, History: w, Stage: bridge.New(*o)})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = g.Serve(context.Background()) }() // it ends with Close
		t.Cleanup(func() { g.Close(); w.Close() })
		conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "g"+node), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns[node] = conn
	}
	r.node, r.control = csi.NewNodeClient(conns["n1"]), csi.NewControllerClient(conns[""])
	return r
}

var mounted = &csi.VolumeCapability{
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
}

func (r *rig) attach(t *testing.T, volume string) (map[string]string, codes.Code) {
	got, err := r.control.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: "n1", VolumeCapability: mounted})
	return got.GetPublishContext(), status.Code(err)
}

func (r *rig) taken(t *testing.T) int64 {
	t.Helper()
	q, err := r.client.Get(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	return q.Attached
}

func (r *rig) want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n want %v\n got  %v", what, want, got)
	}
}

func TestBridge(t *testing.T) {
	r := newRig(t, 2, func(*bridge.Options) {})
	info, err := r.node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	if err != nil || info.NodeId != "n1" || info.MaxVolumesPerNode != 2 {
		t.Errorf("NodeGetInfo: want the node's name and the backend's limit, got %v, %v", info, err)
	}
	publish, code := r.attach(t, "v1")
	r.want(t, "attach", code, codes.OK)
	again, code := r.attach(t, "v1")
	r.want(t, "attach again", code, codes.OK)
	r.want(t, "publish context", again, publish)
	_, code = r.attach(t, "v2")
	r.want(t, "second volume", code, codes.OK)
	_, code = r.attach(t, "v3")
	r.want(t, "third volume of 2", code, codes.ResourceExhausted)
	_, code = r.attach(t, "none")
	r.want(t, "a volume that the backend does not know", code, codes.NotFound)
	r.want(t, "slots", r.taken(t), 2)
	r.want(t, "the driver's calls", r.seen(&r.calls), []string{
		"create v1 map[type:fast]", "attach id-1 to " + ownNode + " map[made:yes]", "attach id-1 to " + ownNode + " map[made:yes]",
		"create v2 map[type:fast]", "attach id-2 to " + ownNode + " map[made:yes]",
	})

	before := len(r.seen(&r.calls))
	if _, err := r.control.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "v3", NodeId: "n1"}); err != nil {
		t.Errorf("detach of what was refused: %v", err)
	}
	r.want(t, "calls about a volume that was never made", len(r.seen(&r.calls)), before)

	// The node knows the volume from the publish context, and the driver gets its own back.
	if _, err := r.node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: "v1", TargetPath: "/t", VolumeCapability: mounted, PublishContext: publish}); err != nil {
		t.Error(err)
	}
	if _, err := r.node.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "v1", TargetPath: "/t"}); err != nil {
		t.Error(err)
	}
	r.want(t, "the driver's calls on the node", r.seen(&r.nodeCalls), []string{"publish id-1 map[made:yes] map[device:d1]", "unpublish id-1"})

	for range 2 {
		if _, err := r.control.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "v1", NodeId: "n1"}); err != nil {
			t.Error(err)
		}
	}
	r.want(t, "slots after a detach", r.taken(t), 1)
	r.want(t, "the last call", r.seen(&r.calls)[len(r.seen(&r.calls))-1], "detach id-1 from "+ownNode)
}

// TestBridgeUndoes shows what becomes of a slot whose volume the driver did not attach.
func TestBridgeUndoes(t *testing.T) {
	r := newRig(t, 2, func(*bridge.Options) {})
	r.refusing(codes.FailedPrecondition)
	_, code := r.attach(t, "v1")
	r.want(t, "attach that the driver refuses", code, codes.FailedPrecondition)
	r.want(t, "slots", r.taken(t), 0)
	r.refusing(codes.Unavailable)
	_, code = r.attach(t, "v1")
	r.want(t, "attach of which nothing is known", code, codes.Unavailable)
	r.want(t, "slots, one of which may be in use", r.taken(t), 1)
	_, code = r.attach(t, "v1")
	r.want(t, "attach", code, codes.OK)
	r.refusing(codes.Internal)
	_, code = r.attach(t, "v1")
	r.want(t, "attach again, refused", code, codes.Internal)
	r.want(t, "slots of what was attached before", r.taken(t), 1)
}

// TestBridgeOutage shows that the backend's failures are the answers, with the driver left alone.
func TestBridgeOutage(t *testing.T) {
	r := newRig(t, 2, func(*bridge.Options) {})
	if _, err := r.node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Inject(t.Context(), quota.Fault{Mode: quota.Refuse, Nodes: []string{"n1"}}); err != nil {
		t.Fatal(err)
	}
	_, code := r.attach(t, "v1")
	r.want(t, "attach", code, codes.Unavailable)
	r.want(t, "the driver's calls", len(r.seen(&r.calls)), 0)
	info, err := r.node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	if err != nil || info.MaxVolumesPerNode != 2 {
		t.Errorf("NodeGetInfo: want the last good limit, got %v, %v", info, err)
	}
}

// TestBridgeWithoutQuota shows a driver that has a limit of its own, and one that makes no volumes.
func TestBridgeWithoutQuota(t *testing.T) {
	r := newRig(t, 2, func(o *bridge.Options) { o.Backend = nil })
	_, code := r.attach(t, "v1")
	r.want(t, "attach", code, codes.OK)
	r.want(t, "slots", r.taken(t), 0)
	r.refusing(codes.ResourceExhausted)
	_, code = r.attach(t, "v2")
	r.want(t, "attach that the driver refuses", code, codes.ResourceExhausted)

	r = newRig(t, 2, func(o *bridge.Options) { o.Backend, o.Context = nil, map[string]string{"share": "s"} })
	r.mu.Lock()
	r.creates = false
	r.mu.Unlock()
	_, code = r.attach(t, "v1")
	r.want(t, "attach", code, codes.OK)
	if _, err := r.control.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "v9", NodeId: "n1"}); err != nil {
		t.Error(err)
	}
	r.want(t, "the driver's calls", r.seen(&r.calls), []string{"attach v1 to " + ownNode + " map[share:s]", "detach v9 from " + ownNode})
}

// TestBridgeBesideAProvisioner shows volumes that others ask for: the driver gets its own ids, and the backend knows them as long as they are there.
func TestBridgeBesideAProvisioner(t *testing.T) {
	r := newRig(t, 2, func(*bridge.Options) {})
	made, err := r.control.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "pvc-1", VolumeCapabilities: []*csi.VolumeCapability{mounted}})
	if err != nil || made.GetVolume().GetVolumeId() != "id-1" {
		t.Fatalf("CreateVolume: want the driver's answer, got %v, %v", made, err)
	}
	publish, code := r.attach(t, "id-1")
	r.want(t, "attach", code, codes.OK)
	r.want(t, "publish context", publish, map[string]string{"device": "d1"})
	_, code = r.attach(t, "v1")
	r.want(t, "attach of a handle of Headroom's", code, codes.OK)
	if _, err := r.control.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "id-1"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("DeleteVolume while the backend has it attached: want %s, got %v", codes.FailedPrecondition, err)
	}
	if _, err := r.control.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "id-1", NodeId: "n1"}); err != nil {
		t.Error(err)
	}
	if _, err := r.control.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "id-1"}); err != nil {
		t.Error(err)
	}
	r.want(t, "the driver's calls", r.seen(&r.calls), []string{
		"create pvc-1 map[]", "attach id-1 to " + ownNode + " map[]", "create v1 map[type:fast]", "attach id-2 to " + ownNode + " map[made:yes]",
		"delete id-1", "detach id-1 from " + ownNode, "delete id-1",
	})
	_, code = r.attach(t, "id-1")
	r.want(t, "attach of what is gone", code, codes.NotFound)
}

// TestBridgeRecord shows that the history has one call of the driver, as Kubernetes sees it, however many the bridge made.
func TestBridgeRecord(t *testing.T) {
	r := newRig(t, 2, func(*bridge.Options) {})
	if _, code := r.attach(t, "v1"); code != codes.OK {
		t.Fatal(code)
	}
	var seen []string
	_, err := history.Count(r.events, history.PrefixCSI+"controller/d", func(e history.Event) bool {
		var c history.CSICall
		if e.Key != history.KeyOpen && e.Decode(&c) == nil {
			seen = append(seen, fmt.Sprintf("%s %s %s %s", c.Side, e.Phase, e.Key, c.Volume))
		}
		return true
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	r.want(t, "events", seen, []string{
		"client invoke ControllerPublishVolume v1", "driver invoke ControllerPublishVolume v1", "driver ok ControllerPublishVolume v1",
		"client ok ControllerPublishVolume v1",
	})
}
