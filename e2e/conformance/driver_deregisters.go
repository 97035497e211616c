package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "driver-deregisters",
		Claim: "When a driver's registration socket goes, its entry leaves CSINode and stays away while the driver runs on; when the socket is back, " +
			"the driver is registered and its count is there again.",
		Source:   "kubernetes pkg/volume/csi/csi_plugin.go, DeRegisterPlugin",
		Boundary: history.Kubelet,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest},
		Test:     driverDeregisters,
	})
}

// deregistered bounds the time from the removal of a socket to that of the entry: the kubelet looks once a second.
const deregistered = 10 * time.Second

func driverDeregisters(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	sockets, ok := b.Cluster.(interface {
		SetSocket(ctx context.Context, node, driver, socket string, there bool) error
	})
	if !ok {
		b.Check(&cluster.UnsupportedError{Provider: b.Header.Provider, Why: "it cannot take a driver's registration socket away while the driver runs"})
	}
	b.AwaitCount(ctx, node, 4, run.Shortest)
	b.Check(sockets.SetSocket(ctx, node, b.Driver, "registration", false))
	b.Await(ctx, deregistered, func(ctx context.Context) error {
		n, err := b.Client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
		if err == nil && slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == b.Driver }) {
			err = fmt.Errorf("CSINode %q: want no entry of driver %q without its registration socket, got one", node, b.Driver)
		}
		return err
	})
	b.Elapse(ctx, run.Shortest+b.Slack()) // a tick of the old registration would write the entry again
	b.Check(sockets.SetSocket(ctx, node, b.Driver, "registration", true))
	b.AwaitCount(ctx, node, 4, run.Scheduled)
}
