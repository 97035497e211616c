package sidecar

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers"
	"headroom/e2e/framework/entry"
	"headroom/fixtures/quota"
)

func TestMain(m *testing.M) {
	entry.Dispatch() // this binary is the driver as well
	os.Exit(m.Run())
}

// until tries until f returns nil, for as long as any of it may take.
func until(t *testing.T, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestTwoGatesAreOneStage: the gate of a node and that of the controller, which reaches the node's driver through its socket, give a driver without a limit
// a quota that changes, and volumes.
func TestTwoGatesAreOneStage(t *testing.T) {
	server := quota.NewServer(quota.Options{})
	data, control := httptest.NewServer(server.Data()), httptest.NewServer(server.Control())
	t.Cleanup(data.Close)
	t.Cleanup(control.Close)
	backend := quota.NewControl(control.URL, control.Client())
	for _, err := range []error{
		backend.AddNode(t.Context(), "n1", quota.NodeConfig{Limit: 1}), backend.AddVolume(t.Context(), "v1", quota.VolumeConfig{}),
		backend.AddVolume(t.Context(), "v2", quota.VolumeConfig{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := shortDir(t)
	nodeGate := node(t, dir)
	nodeGate.driver, nodeGate.definition, nodeGate.backend = "unix://"+filepath.Join(dir, "nodes", "n1.sock"), "hostpath-gate", data.URL
	controllerGate := options{
		nodes: filepath.Join(dir, "nodes"), suffix: ".sock", scale: 1, name: "d.test", events: nodeGate.events, run: "r", definition: "hostpath-gate", backend: data.URL,
		listen: filepath.Join(dir, "csi.sock"),
	}
	if err := os.Mkdir(controllerGate.nodes, 0o755); err != nil {
		t.Fatal(err)
	}
	def, err := drivers.Load("hostpath-gate")
	if err != nil {
		t.Fatal(err)
	}
	driver, err := def.NodeCommand(drivers.Instance{Endpoint: nodeGate.driver, DriverName: "d.test", NodeID: "n1", StateDir: filepath.Join(dir, "driver")})
	if err != nil {
		t.Fatal(err)
	}
	driver.Stderr = os.Stderr
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Process.Kill(); _ = driver.Wait() }) // it has nothing to say about its end
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- serveNode(ctx, nodeGate) }()
	go func() { ended <- serveController(ctx, controllerGate) }()

	nodes := csi.NewNodeClient(call(t, filepath.Join(dir, "plugins", "d.test", "csi.sock")))
	reports := func(want int64) {
		t.Helper()
		until(t, func() error {
			info, err := nodes.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
			if err == nil && info.MaxVolumesPerNode != want {
				err = fmt.Errorf("want %d volumes, got %d", want, info.MaxVolumesPerNode)
			}
			return err
		})
	}
	reports(1)
	until(t, func() error { _, err := os.Stat(controllerGate.listen); return err })
	attacher := csi.NewControllerClient(call(t, controllerGate.listen))
	attaches := func(volume, node string, want codes.Code) map[string]string {
		t.Helper()
		mode := &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}
		capability := &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}, AccessMode: mode}
		answer, err := attacher.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: node, VolumeCapability: capability})
		if status.Code(err) != want {
			t.Errorf("attach %s to %s: want %s, got %v", volume, node, want, err)
		}
		return answer.GetPublishContext()
	}
	if made := attaches("v1", "n1", codes.OK); made["headroom.dev/volume-id"] == "" {
		t.Errorf("want a volume of the driver's own told to the node, got %v", made)
	}
	attaches("v2", "n1", codes.ResourceExhausted)
	attaches("v2", "n2", codes.Unavailable)
	if err := backend.SetLimit(t.Context(), "n1", 2); err != nil {
		t.Fatal(err)
	}
	reports(2)
	attaches("v2", "n1", codes.OK)
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("want an orderly end, got %v", err)
		}
	}
}
