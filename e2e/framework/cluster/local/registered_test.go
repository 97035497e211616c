package local

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"headroom/drivers/gate/registrar"
	"headroom/e2e/framework/cluster"
)

// TestWhoFailedToRegister blames the driver only where it ended, or where a kubelet that is there asked and got nowhere.
func TestWhoFailedToRegister(t *testing.T) {
	for name, tc := range map[string]struct {
		driverEnds, kubeletEnds, asked bool
		drivers                        bool
	}{
		"the driver ended":                       {driverEnds: true, drivers: true},
		"the kubelet never asked":                {},
		"the kubelet asked, and ended":           {asked: true, kubeletEnds: true},
		"the kubelet asked, and heard no answer": {asked: true, drivers: true},
	} {
		t.Run(name, func(t *testing.T) {
			driver, _ := shell(t, `echo up > "$DIR/up"; while :; do sleep 0.02; done`)
			kubelet, _ := shell(t, `echo up > "$DIR/up"; while :; do sleep 0.02; done`)
			mustStart(t, driver)
			mustStart(t, kubelet)
			socket := filepath.Join(t.TempDir(), "reg.sock")
			r, err := registrar.New(registrar.Options{Socket: socket, DriverName: "d.test", Node: "n1"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			go func() { _ = r.Serve(context.Background()) }()
			if tc.asked {
				ask(t, socket)
			}
			for p, ends := range map[*process]bool{driver: tc.driverEnds, kubelet: tc.kubeletEnds} {
				if ends {
					if err := p.stop(t.Context(), cluster.Kill); err != nil {
						t.Fatal(err)
					}
				}
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			err = (&agent{cfg: nodeConfig{Node: "n1"}}).awaitRegistered(over, r, "d.test", driver, kubelet)
			var blamed *cluster.DriverError
			if err == nil || errors.As(err, &blamed) != tc.drivers {
				t.Errorf("want an error, the driver's: %t, got %v", tc.drivers, err)
			}
		})
	}
}

// ask is the kubelet's first question to a registrar.
func ask(t *testing.T, socket string) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := registration.NewRegistrationClient(conn).GetInfo(ctx, &registration.InfoRequest{}); err != nil {
		t.Fatal(err)
	}
}
