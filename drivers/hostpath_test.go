package drivers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// plugin is a hostpath driver under the contract: the stand-in, or the real one where HOSTPATHPLUGIN names it.
type plugin struct {
	csi.IdentityClient
	csi.ControllerClient
	csi.NodeClient
}

// startPlugin starts one from drivers/hostpath.yaml with further flags; the last of a flag that comes twice counts.
func startPlugin(t *testing.T, state string, flags ...string) plugin {
	t.Helper()
	d, err := Load("hostpath")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd, err := d.NodeCommand(Instance{Endpoint: "unix://" + dir + "/d.sock", DriverName: "hostpath.test", NodeID: "n1", StateDir: state, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = append(cmd.Args, flags...)
	startProcess(t, cmd, filepath.Join(dir, "d.sock"))
	conn := dial(t, filepath.Join(dir, "d.sock"))
	return plugin{csi.NewIdentityClient(conn), csi.NewControllerClient(conn), csi.NewNodeClient(conn)}
}

func mounted() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
}

func (p plugin) create(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	got, err := p.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 20}, VolumeCapabilities: []*csi.VolumeCapability{mounted()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return got.Volume.VolumeId
}

func (p plugin) attach(ctx context.Context, volume, node string, readOnly bool) codes.Code {
	_, err := p.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: node, Readonly: readOnly, VolumeCapability: mounted()})
	return status.Code(err)
}

func (p plugin) detach(ctx context.Context, volume, node string) codes.Code {
	_, err := p.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: volume, NodeId: node})
	return status.Code(err)
}

func (p plugin) limit(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	got, err := p.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil || got.NodeId != "n1" {
		t.Fatalf("NodeGetInfo: want node n1, got %v, %v", got, err)
	}
	return got.MaxVolumesPerNode
}

// TestHostpathContract is what the stand-in and csi-driver-host-path have in common. HOSTPATHPLUGIN=path runs it on the real one.
func TestHostpathContract(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	state := filepath.Join(t.TempDir(), "state")
	p := startPlugin(t, state)

	info, err := p.GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	if err != nil || info.Name != "hostpath.test" || info.VendorVersion == "" {
		t.Errorf("GetPluginInfo: want the name given and a version, got %v, %v", info, err)
	}
	caps, err := p.ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
	if err != nil || !slices.ContainsFunc(caps.Capabilities, func(c *csi.ControllerServiceCapability) bool {
		return c.GetRpc().GetType() == csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME
	}) {
		t.Errorf("want PUBLISH_UNPUBLISH_VOLUME with --enable-attach, got %v, %v", caps, err)
	}
	node, err := p.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil || node.MaxVolumesPerNode != 3 || node.AccessibleTopology.GetSegments()["topology.hostpath.csi/node"] != "n1" {
		t.Errorf("NodeGetInfo: want --attach-limit and the node as topology, got %v, %v", node, err)
	}

	var volumes []string
	for _, name := range []string{"a", "b", "c", "d"} {
		volumes = append(volumes, p.create(ctx, t, name))
	}
	if again := p.create(ctx, t, "a"); again != volumes[0] {
		t.Errorf("CreateVolume of a name that is there: want %q, got %q", volumes[0], again)
	}
	for i, c := range []struct {
		got, want codes.Code
	}{
		{p.attach(ctx, volumes[0], "n1", false), codes.OK},
		{p.attach(ctx, volumes[0], "n1", false), codes.OK},
		{p.attach(ctx, volumes[0], "n1", true), codes.AlreadyExists},
		{p.attach(ctx, volumes[0], "n2", false), codes.NotFound},
		{p.attach(ctx, "none", "n1", false), codes.NotFound},
		{p.attach(ctx, "", "n1", false), codes.InvalidArgument},
		{p.attach(ctx, volumes[0], "", false), codes.InvalidArgument},
		{p.attach(ctx, volumes[1], "n1", false), codes.OK},
		{p.attach(ctx, volumes[2], "n1", false), codes.OK},
		{p.attach(ctx, volumes[3], "n1", false), codes.ResourceExhausted},
		{p.attach(ctx, volumes[2], "n1", false), codes.OK}, // attached already, on a full node
		{p.detach(ctx, "none", "n1"), codes.OK},
		{p.detach(ctx, volumes[2], "n2"), codes.NotFound},
		{p.detach(ctx, "", "n1"), codes.InvalidArgument},
		{p.detach(ctx, volumes[2], "n1"), codes.OK},
		{p.detach(ctx, volumes[2], "n1"), codes.OK},
		{p.detach(ctx, volumes[1], ""), codes.OK}, // from wherever it is
		{p.attach(ctx, volumes[3], "n1", false), codes.OK},
	} {
		if c.got != c.want {
			t.Errorf("attach or detach %d: want %s, got %s", i, c.want, c.got)
		}
	}
	if got := p.limit(ctx, t); got != 3 {
		t.Errorf("want the total with volumes attached, 3, got %d", got)
	}

	// Another process on the same state knows what is attached.
	p = startPlugin(t, state)
	if first, second := p.attach(ctx, volumes[1], "n1", false), p.attach(ctx, volumes[2], "n1", false); first != codes.OK || second != codes.ResourceExhausted {
		t.Errorf("after a restart: want room for one of 3, got %s and %s", first, second)
	}
	for _, v := range volumes {
		p.detach(ctx, v, "n1")
		if _, err := p.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v}); err != nil {
			t.Errorf("DeleteVolume: %v", err)
		}
	}
	if _, err := p.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volumes[0]}); err != nil {
		t.Errorf("DeleteVolume of what is gone: %v", err)
	}
	if got := p.attach(ctx, volumes[0], "n1", false); got != codes.NotFound {
		t.Errorf("attach of a deleted volume: want NotFound, got %s", got)
	}
}

// TestHostpathNode is the contract's part on a node: volumes are staged before they are published, and mounted where they are.
func TestHostpathNode(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting takes root") // the specs of a cell, which needs none, mount too
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	state, target := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "target")
	p := startPlugin(t, state)
	id := p.create(ctx, t, "a")
	stage := func(volume, path string) codes.Code {
		_, err := p.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: volume, StagingTargetPath: path, VolumeCapability: mounted()})
		return status.Code(err)
	}
	publish := func(volume, staged, path string) codes.Code {
		_, err := p.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: volume, StagingTargetPath: staged, TargetPath: path, VolumeCapability: mounted()})
		return status.Code(err)
	}
	unpublish := func(volume, path string) codes.Code {
		_, err := p.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: path})
		return status.Code(err)
	}
	unstage := func(volume, path string) codes.Code {
		_, err := p.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: path})
		return status.Code(err)
	}
	t.Cleanup(func() { unpublish(id, target) })
	for _, c := range []struct {
		what      string
		got, want codes.Code
	}{
		{"attach", p.attach(ctx, id, "n1", false), codes.OK},
		{"publish before staging", publish(id, "/s", target), codes.FailedPrecondition},
		{"stage nothing", stage("none", "/s"), codes.NotFound},
		{"stage nowhere", stage(id, ""), codes.InvalidArgument},
		{"stage", stage(id, "/s"), codes.OK},
		{"stage again", stage(id, "/s"), codes.OK},
		{"stage elsewhere", stage(id, "/other"), codes.FailedPrecondition},
		{"publish from elsewhere", publish(id, "/other", target), codes.InvalidArgument},
		{"publish nothing", publish("none", "/s", target), codes.NotFound},
		{"publish nowhere", publish(id, "/s", ""), codes.InvalidArgument},
		{"publish", publish(id, "/s", target), codes.OK},
		{"publish again", publish(id, "/s", target), codes.OK},
		{"unstage what is published", unstage(id, "/s"), codes.Internal},
		{"unpublish from elsewhere", unpublish(id, "/nowhere"), codes.OK},
	} {
		if c.got != c.want {
			t.Errorf("%s: want %s, got %s", c.what, c.want, c.got)
		}
	}
	if err := os.WriteFile(filepath.Join(target, "data"), []byte("kept"), 0o600); err != nil {
		t.Error(err)
	}
	if first, second := unpublish(id, target), unpublish(id, target); first != codes.OK || second != codes.OK {
		t.Errorf("unpublish, twice: want OK, got %s and %s", first, second)
	}
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		t.Errorf("after unpublish: want the target gone, got %v", err)
	}
	if got := publish(id, "/s", target); got != codes.OK {
		t.Errorf("publish once more: want OK, got %s", got)
	}
	if data, err := os.ReadFile(filepath.Join(target, "data")); err != nil || string(data) != "kept" {
		t.Errorf("want the volume's data back, got %q, %v", data, err)
	}
	for i, got := range []codes.Code{unpublish(id, target), unstage(id, "/s"), unstage(id, "/s"), p.detach(ctx, id, "n1")} {
		if got != codes.OK {
			t.Errorf("taking it off, call %d: want OK, got %s", i, got)
		}
	}
}

// TestHostpathRandomLimit shows that --attach-limit=-1 promises a number and keeps to none.
func TestHostpathRandomLimit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := startPlugin(t, filepath.Join(t.TempDir(), "state"), "--attach-limit=-1")
	seen := map[int64]bool{}
	for range 200 {
		n := p.limit(ctx, t)
		if n < 1 || n > 10 {
			t.Fatalf("want 1 to 10, got %d", n)
		}
		seen[n] = true
	}
	if len(seen) < 2 {
		t.Errorf("want random numbers, got %v only", seen)
	}
	for i := range 12 {
		if got := p.attach(ctx, p.create(ctx, t, string(rune('a'+i))), "n1", false); got != codes.OK {
			t.Errorf("attach %d: want OK, as nothing is enforced, got %s", i+1, got)
		}
	}
}

// TestHostpathReportedLimit shows that --maxvolumespernode is reported and not enforced.
func TestHostpathReportedLimit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := startPlugin(t, filepath.Join(t.TempDir(), "state"), "--attach-limit=0", "--maxvolumespernode=1")
	if got := p.limit(ctx, t); got != 1 {
		t.Errorf("want 1, got %d", got)
	}
	for _, name := range []string{"a", "b"} {
		if got := p.attach(ctx, p.create(ctx, t, name), "n1", false); got != codes.OK {
			t.Errorf("attach %s: want OK, got %s", name, got)
		}
	}
}

// TestHostpathWithoutAttach shows the driver as it is started without --enable-attach.
func TestHostpathWithoutAttach(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := startPlugin(t, filepath.Join(t.TempDir(), "state"), "--enable-attach=false")
	if got := p.attach(ctx, p.create(ctx, t, "a"), "n1", false); got != codes.Unimplemented {
		t.Errorf("attach: want Unimplemented, got %s", got)
	}
	if got := p.detach(ctx, "a", "n1"); got != codes.Unimplemented {
		t.Errorf("detach: want Unimplemented, got %s", got)
	}
}

func TestHostpathVariable(t *testing.T) {
	t.Setenv(hostpathVariable, "/opt/hostpathplugin")
	d, err := Load("hostpath")
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := d.NodeCommand(instance)
	if err != nil || cmd.Path != "/opt/hostpathplugin" || !slices.Contains(d.Files(), "/opt/hostpathplugin") {
		t.Errorf("want the real plugin, got %q of %q, %v", cmd, d.Files(), err)
	}
}
