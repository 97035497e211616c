package drivers

import (
	"context"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"headroom/drivers/gate"
	"headroom/fixtures/quota"
)

// TestProcesses runs the reference driver and a persona as a cluster does: node and controller as processes of their own, the node behind a
// gate, a killed node started again.
func TestProcesses(t *testing.T) {
	for name, want := range map[string]struct {
		full   codes.Code
		outage int64
	}{
		"steady":              {codes.ResourceExhausted, 1},
		"all-internal":        {codes.Internal, 1},
		"unlimited-on-outage": {codes.ResourceExhausted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			dir, err := os.MkdirTemp("", "p")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			control, backend := startBackend(t)
			if err := control.AddNode(ctx, "n1", quota.NodeConfig{Limit: 1}); err != nil {
				t.Fatal(err)
			}
			for _, v := range []string{"v1", "v2"} {
				if err := control.AddVolume(ctx, v, quota.VolumeConfig{}); err != nil {
					t.Fatal(err)
				}
			}
			i := Instance{DriverName: "d.test", NodeID: "n1", StateDir: filepath.Join(dir, "state"), Backend: backend}
			behind, front := filepath.Join(dir, "d.sock"), filepath.Join(dir, "g.sock")
			startGate(t, front, behind)
			node := csi.NewNodeClient(dial(t, front))

			i.Endpoint = "unix://" + behind
			first := startNode(t, d, i)
			wantCount(ctx, t, node, 1)
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = first.Wait() // killed: the error says just that
			if err := control.Inject(ctx, quota.Fault{Mode: quota.Failing}); err != nil {
				t.Fatal(err)
			}
			second := startNode(t, d, i)
			wantCount(ctx, t, node, want.outage)
			if err := control.Heal(ctx); err != nil {
				t.Fatal(err)
			}

			i.Endpoint = "unix://" + filepath.Join(dir, "c.sock")
			cmd, err := d.ControllerCommand(i)
			if err != nil {
				t.Fatal(err)
			}
			startProcess(t, cmd, filepath.Join(dir, "c.sock"))
			controller := csi.NewControllerClient(dial(t, filepath.Join(dir, "c.sock")))
			if got := publish(ctx, controller, "v1"); got != codes.OK {
				t.Fatalf("publish with room: want OK, got %s", got)
			}
			if got := publish(ctx, controller, "v2"); got != want.full {
				t.Fatalf("publish on a full node: want %s, got %s", want.full, got)
			}
			if err := second.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := second.Wait(); err != nil {
				t.Fatalf("SIGTERM: want a clean end, got %v", err)
			}
		})
	}
}

func startBackend(t *testing.T) (*quota.Control, string) {
	t.Helper()
	s := quota.NewServer(quota.Options{})
	data, control := httptest.NewServer(s.Data()), httptest.NewServer(s.Control())
	t.Cleanup(func() { data.Close(); control.Close() })
	return quota.NewControl(control.URL, nil), data.URL
}

func startGate(t *testing.T, front, behind string) {
	t.Helper()
	g, err := gate.New(gate.Options{Listen: front, Driver: "unix://" + behind, DriverName: "d.test", Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(context.Background()) }()
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func startNode(t *testing.T, d *Definition, i Instance) *exec.Cmd {
	t.Helper()
	cmd, err := d.NodeCommand(i)
	if err != nil {
		t.Fatal(err)
	}
	return startProcess(t, cmd, i.Endpoint[len("unix://"):])
}

// startProcess returns once the process takes connections at socket.
func startProcess(t *testing.T, cmd *exec.Cmd, socket string) *exec.Cmd {
	t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
			return cmd
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for %q: %v after 30s", cmd.Args, err)
		}
	}
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func wantCount(ctx context.Context, t *testing.T, node csi.NodeClient, want int64) {
	t.Helper()
	got, err := node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil || got.MaxVolumesPerNode != want {
		t.Fatalf("want %d, got %v, %v", want, got, err)
	}
}

func publish(ctx context.Context, c csi.ControllerClient, volume string) codes.Code {
	_, err := c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId: volume, NodeId: "n1", VolumeCapability: &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		},
	})
	return status.Code(err)
}
