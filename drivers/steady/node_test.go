package steady_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers/steady"
	"headroom/e2e/framework/history"
	"headroom/fixtures/quota"
)

func TestIdentityAndCapabilities(t *testing.T) {
	for _, zone := range []string{"", "a"} {
		conn := serve(t, newCloud(t), func(o *steady.Options) { o.Zone = zone })
		identity := csi.NewIdentityClient(conn)
		info, err := identity.GetPluginInfo(bounded(t), &csi.GetPluginInfoRequest{})
		if err != nil || info.Name != driverName || info.VendorVersion == "" {
			t.Fatalf("info %v, %v", info, err)
		}
		if _, err := identity.Probe(bounded(t), &csi.ProbeRequest{}); err != nil {
			t.Fatal(err)
		}
		plugin, err := identity.GetPluginCapabilities(bounded(t), &csi.GetPluginCapabilitiesRequest{})
		want := 1
		if zone != "" {
			want = 2
		}
		if err != nil || len(plugin.Capabilities) != want {
			t.Fatalf("zone %q: want %d capabilities, got %v, %v", zone, want, plugin, err)
		}
		node := csi.NewNodeClient(conn)
		got, err := node.NodeGetInfo(bounded(t), &csi.NodeGetInfoRequest{})
		if err != nil || got.NodeId != "n1" || got.MaxVolumesPerNode != 2 || got.AccessibleTopology.GetSegments()[steady.TopologyKey(driverName)] != zone {
			t.Fatalf("zone %q: node info %v, %v", zone, got, err)
		}
		if c, err := node.NodeGetCapabilities(bounded(t), &csi.NodeGetCapabilitiesRequest{}); err != nil || len(c.Capabilities) != 0 {
			t.Fatalf("want a plain driver, got %v, %v", c, err)
		}
		c, err := csi.NewControllerClient(conn).ControllerGetCapabilities(bounded(t), &csi.ControllerGetCapabilitiesRequest{})
		if err != nil || len(c.Capabilities) != 3 {
			t.Fatalf("controller capabilities %v, %v", c, err)
		}
	}
}

func TestNodeInfoInAnOutage(t *testing.T) {
	cloud := newCloud(t)
	node := csi.NewNodeClient(serve(t, cloud, nil))
	for _, mode := range append([]quota.Mode{""}, quota.Modes...) {
		switch fault := (quota.Fault{Mode: mode}); mode {
		case "":
		case quota.Hang, quota.NoAnswer:
			continue // the policy's tests have it, with a clock that does not make anybody wait
		case quota.Negative:
			continue // that is no failure: it leaves no room
		case quota.Slow:
			fault.Delay = history.Duration(time.Millisecond)
			fallthrough
		default:
			must(t, cloud.Inject(bounded(t), fault))
		}
		if got, err := node.NodeGetInfo(bounded(t), &csi.NodeGetInfoRequest{}); err != nil || got.MaxVolumesPerNode != 2 {
			t.Fatalf("backend fails with %q: want 2, got %v, %v", mode, got, err)
		}
	}
}

func TestNodePublishValidates(t *testing.T) {
	node := csi.NewNodeClient(serve(t, newCloud(t), nil))
	ok := capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
	for name, r := range map[string]*csi.NodePublishVolumeRequest{
		"volume":     {TargetPath: "/t", VolumeCapability: ok},
		"target":     {VolumeId: "v1", VolumeCapability: ok},
		"capability": {VolumeId: "v1", TargetPath: "/t"},
	} {
		if _, err := node.NodePublishVolume(bounded(t), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("without %s: want INVALID_ARGUMENT, got %v", name, err)
		}
	}
	for name, r := range map[string]*csi.NodeUnpublishVolumeRequest{"volume": {TargetPath: "/t"}, "target": {VolumeId: "v1"}} {
		if _, err := node.NodeUnpublishVolume(bounded(t), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("unpublish without %s: want INVALID_ARGUMENT, got %v", name, err)
		}
	}
}

// inMountNamespace runs the rest of the calling test in a child of its own mount namespace, so that no mount is left behind. It reports
// whether this is that child.
func inMountNamespace(t *testing.T) bool {
	t.Helper()
	const marker = "HEADROOM_TEST_IN_MOUNT_NAMESPACE"
	if os.Getenv(marker) == t.Name() {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), marker+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skipf("this machine lets nobody make a mount namespace: %v", err)
	}
	if err != nil {
		t.Fatalf("in a mount namespace: %v\n%s", err, out)
	}
	return false
}

func TestNodePublishMounts(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	var state string
	node := csi.NewNodeClient(serve(t, newCloud(t), func(o *steady.Options) { state = o.StateDir }))
	dir := t.TempDir()
	publish := func(volume, target string, readOnly bool) error {
		_, err := node.NodePublishVolume(bounded(t), &csi.NodePublishVolumeRequest{
			VolumeId: volume, TargetPath: target, Readonly: readOnly, VolumeCapability: capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER),
		})
		return err
	}
	unpublish := func(target string) {
		t.Helper()
		_, err := node.NodeUnpublishVolume(bounded(t), &csi.NodeUnpublishVolumeRequest{VolumeId: "v1", TargetPath: target})
		must(t, err)
	}
	one, two, ro := filepath.Join(dir, "pods", "with space", "one"), filepath.Join(dir, "two"), filepath.Join(dir, "ro")
	must(t, publish("v1", one, false))
	must(t, publish("v1", one, false)) // again
	must(t, publish("v1", two, false))
	must(t, publish("v1", ro, true))
	must(t, os.WriteFile(filepath.Join(one, "file"), []byte("data"), 0o644))
	for _, target := range []string{two, ro} {
		if b, err := os.ReadFile(filepath.Join(target, "file")); err != nil || string(b) != "data" {
			t.Fatalf("%s: want one volume everywhere, got %q, %v", target, b, err)
		}
	}
	if err := os.WriteFile(filepath.Join(ro, "other"), nil, 0o644); err == nil {
		t.Fatal("want the read-only mount to refuse a file")
	}
	if err := publish("v1", one, true); status.Code(err) != codes.AlreadyExists {
		t.Fatalf("other capability at the same target: want ALREADY_EXISTS, got %v", err)
	}
	if err := publish("v2", one, false); status.Code(err) != codes.AlreadyExists {
		t.Fatalf("other volume at the same target: want ALREADY_EXISTS, got %v", err)
	}
	must(t, publish("v2", filepath.Join(dir, "three"), false))
	if n := steady.Attachments(state); n != 2 {
		t.Fatalf("want 2 volumes in use, got %d", n)
	}
	for _, target := range []string{one, one, two, ro, filepath.Join(dir, "never")} {
		unpublish(target)
		if _, err := os.Stat(target); !os.IsNotExist(err) {
			t.Fatalf("want target %s removed, got %v", target, err)
		}
	}
	if n := steady.Attachments(state); n != 1 {
		t.Fatalf("want 1 volume in use, got %d", n)
	}
	must(t, publish("v1", one, false))
	if b, err := os.ReadFile(filepath.Join(one, "file")); err != nil || string(b) != "data" {
		t.Fatalf("want the data to stay, got %q, %v", b, err)
	}
	must(t, syscall.Unmount(one, 0)) // as after a reboot: the record is there, the mount is not
	if n := steady.Attachments(state); n != 1 {
		t.Fatalf("want a record without a mount not to count, got %d", n)
	}
	must(t, os.WriteFile(filepath.Join(one, "precious"), nil, 0o644))
	if _, err := node.NodeUnpublishVolume(bounded(t), &csi.NodeUnpublishVolumeRequest{VolumeId: "v1", TargetPath: one}); err == nil {
		t.Fatal("want a target with files of others to be left alone, with an error")
	}
	must(t, os.Remove(filepath.Join(one, "precious")))
	unpublish(one)
	unpublish(filepath.Join(dir, "three"))
}
