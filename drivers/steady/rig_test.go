package steady_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"headroom/drivers/steady"
	"headroom/drivers/steady/policy"
	"headroom/fixtures/quota"
)

const driverName = "steady.test"

// patience bounds waits for what happens at once on an idle machine.
const patience = 30 * time.Second

// cloud is a quota backend with nodes n1 and n2 and some volumes.
type cloud struct {
	*quota.Control
	url string
}

func newCloud(t *testing.T) cloud {
	t.Helper()
	s := quota.NewServer(quota.Options{})
	data, control := httptest.NewServer(s.Data()), httptest.NewServer(s.Control())
	c := cloud{quota.NewControl(control.URL, control.Client()), data.URL}
	ctx := context.Background()
	t.Cleanup(func() {
		must(t, c.Heal(ctx)) // calls that hang would keep the servers from closing
		data.Close()
		control.Close()
	})
	for node, zone := range map[string]string{"n1": "a", "n2": "b"} {
		must(t, c.AddNode(ctx, node, quota.NodeConfig{Limit: 2, Zone: zone}))
	}
	for _, v := range []string{"v1", "v2", "v3"} {
		must(t, c.AddVolume(ctx, v, quota.VolumeConfig{}))
	}
	must(t, c.AddVolume(ctx, "in-b", quota.VolumeConfig{Zone: "b"}))
	must(t, c.AddVolume(ctx, "locked", quota.VolumeConfig{Secret: "sesame"}))
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve starts a driver for n1 over the cloud and returns a connection to it.
func serve(t *testing.T, c cloud, change func(*steady.Options)) *grpc.ClientConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	must(t, err)
	o := steady.Options{Mode: steady.ModeAll, DriverName: driverName, NodeID: "n1", StateDir: filepath.Join(dir, "state"), Backend: quota.NewClient(c.url, "n1")}
	if change != nil {
		change(&o)
	}
	figures := policy.Config{
		MinInterval: time.Millisecond, CacheAge: time.Millisecond, LastGoodLife: time.Hour, QueryTimeout: patience, Step: 2, StepInterval: time.Hour,
	}
	figures, o.Backend = o.Mistakes.Of(figures, o.Backend)
	o.Policy, err = policy.New(policy.Options{
		Node: "n1", Config: figures, Backend: o.Backend, Store: steady.StateFile(o.StateDir), Clock: policy.Machine{}, Rand: rand.New(rand.NewPCG(1, 1)),
	})
	must(t, err)
	d, err := steady.New(o)
	must(t, err)
	socket := filepath.Join(dir, "d.sock")
	l, err := net.Listen("unix", socket)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, l) }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		o.Policy.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// capability is a mounted volume for one node.
func capability(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
}

func publishRequest(node, volume string) *csi.ControllerPublishVolumeRequest {
	return &csi.ControllerPublishVolumeRequest{
		NodeId: node, VolumeId: volume, VolumeCapability: capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER),
	}
}
