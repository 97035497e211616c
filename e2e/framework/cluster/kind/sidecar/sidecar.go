// Package sidecar has the programs that stand beside a driver in its pods: the gate of a node, which also registers the driver with the kubelet, and the
// gate of a controller.
//
// Contract: each writes the history that a node agent writes on a local cluster, under the same sources, and closes it on SIGTERM. They start no driver
// and no attacher: containers of the same pod are those.
package sidecar

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"headroom/drivers/gate"
	"headroom/drivers/gate/registrar"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/history"
)

// Programs of this binary.
const (
	NodeGate       = "node-gate"
	ControllerGate = "controller-gate"
)

func init() {
	entry.Register(NodeGate, func(args []string) int { return program(NodeGate, args, serveNode) })
	entry.Register(ControllerGate, func(args []string) int { return program(ControllerGate, args, serveController) })
}

// options are the flags of both programs.
type options struct {
	driver, name, events, run string
	// listen is where a controller's attacher connects; kubelet and node are a node's.
	listen, kubelet, node string
}

// program parses flags and serves until SIGTERM. Exit codes: 0 after an orderly end, 2 for wrong flags, 3 when it could not serve.
func program(name string, args []string, serve func(context.Context, options) error) int {
	var o options
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	needed := map[string]*string{"driver": &o.driver, "driver-name": &o.name, "events": &o.events, "run": &o.run}
	flags.StringVar(&o.driver, "driver", "", "unix:///path of the driver's socket")
	flags.StringVar(&o.name, "driver-name", "", "CSI driver name")
	flags.StringVar(&o.events, "events", "", "folder for the history")
	flags.StringVar(&o.run, "run", "", "id of the run")
	if name == NodeGate {
		flags.StringVar(&o.kubelet, "kubelet", "", "the kubelet's directory")
		flags.StringVar(&o.node, "node", "", "name of the node")
		needed["kubelet"], needed["node"] = &o.kubelet, &o.node
	} else {
		flags.StringVar(&o.listen, "listen", "", "path of the socket that the attacher connects to")
		needed["listen"] = &o.listen
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	for flagName, value := range needed {
		if *value == "" {
			fmt.Fprintf(os.Stderr, "%s: --%s is missing\n", name, flagName)
			return 2
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serve(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 3
	}
	return 0
}

func serveController(ctx context.Context, o options) error {
	events, err := history.Create(o.events, o.run, history.PrefixCSI+"controller/"+o.name)
	if err != nil {
		return err
	}
	g, err := gate.New(gate.Options{Listen: o.listen, Driver: o.driver, DriverName: o.name, History: events})
	if err != nil {
		return errors.Join(err, events.Close())
	}
	// Until the driver listens the gate answers nothing, for which an attacher waits; it ends when it is told that there is no driver.
	err = await(ctx, o.driver)
	if err == nil {
		err = g.Serve(ctx)
	}
	return errors.Join(ending(ctx, err), g.Close(), events.Close())
}

func serveNode(ctx context.Context, o options) error {
	events, err := history.Create(o.events, o.run, history.PrefixCSI+o.node)
	if err != nil {
		return err
	}
	front := filepath.Join(o.kubelet, "plugins", o.name, "csi.sock")
	if err := os.MkdirAll(filepath.Dir(front), 0o755); err != nil {
		return errors.Join(err, events.Close())
	}
	g, err := gate.New(gate.Options{Listen: front, Driver: o.driver, DriverName: o.name, Node: o.node, History: events})
	if err != nil {
		return errors.Join(err, events.Close())
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx) }()
	// As a registrar sidecar does: register once the driver answers. On the way out, deregister first, so that the kubelet asks nothing any more.
	err = await(ctx, o.driver)
	if err == nil {
		err = register(ctx, o, front, events)
	}
	return errors.Join(ending(ctx, err), g.Close(), <-served, os.RemoveAll(filepath.Dir(front)), events.Close())
}

// register offers the driver to the kubelet until ctx ends.
func register(ctx context.Context, o options, endpoint string, events *history.Writer) error {
	r, err := registrar.New(registrar.Options{
		Socket: filepath.Join(o.kubelet, "plugins_registry", o.name+"-reg.sock"), Endpoint: endpoint, DriverName: o.name, Node: o.node, History: events,
	})
	if err != nil {
		return err
	}
	return errors.Join(r.Serve(ctx), r.Close())
}

// ending drops the error that comes of being asked to end.
func ending(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// await returns when something listens on the socket.
func await(ctx context.Context, endpoint string) error {
	path := strings.TrimPrefix(endpoint, "unix://")
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
