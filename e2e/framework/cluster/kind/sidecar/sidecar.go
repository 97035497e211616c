// Package sidecar has the programs that stand beside a driver in its pods: the gate of a node, which also registers the driver with the kubelet, and the
// gate of a controller.
//
// Contract: each writes the history that a node agent writes on a local cluster, under the same sources, and closes it on SIGTERM. Each gives the driver
// what its definition says that it lacks, and looks who it is before anybody else may call it. They start no driver and no attacher: containers of the same
// pod are those.
package sidecar

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"headroom/drivers"
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
	// definition is the driver's, as drivers.Load takes it; backend is the quota backend's base URL.
	definition, backend string
	seed                int64
	// scale stretches the waits for the driver.
	scale float64
	// listen is where a controller's attacher connects; nodes, in place of driver, is where the nodes' drivers listen that serve controller calls, and suffix
	// is what of a socket's path there follows its node's name.
	listen, nodes, suffix string
	// kubelet, node and state are a node's.
	kubelet, node, state string
}

// CodeStranger is the exit code of a gate whose driver is not what was to be started; why is the end of its log.
const CodeStranger = 1

// program parses flags and serves until SIGTERM. Exit codes: 0 after an orderly end, CodeStranger, 2 for wrong flags, 3 when it could not serve.
func program(name string, args []string, serve func(context.Context, options) error) int {
	var o options
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	needed := map[string]*string{"driver-name": &o.name, "events": &o.events, "run": &o.run, "definition": &o.definition, "backend": &o.backend}
	flags.StringVar(&o.driver, "driver", "", "unix:///path of the driver's socket")
	flags.StringVar(&o.name, "driver-name", "", "CSI driver name")
	flags.StringVar(&o.events, "events", "", "folder for the history")
	flags.StringVar(&o.run, "run", "", "id of the run")
	flags.StringVar(&o.definition, "definition", "", "name or file of the driver's definition")
	flags.StringVar(&o.backend, "backend", "", "base URL of the quota backend, for a driver whose limit is the gate's")
	flags.Int64Var(&o.seed, "seed", 0, "seed of the run")
	flags.Float64Var(&o.scale, "timeout-scale", 1, "stretches the waits for the driver")
	if name == NodeGate {
		flags.StringVar(&o.kubelet, "kubelet", "", "the kubelet's directory")
		flags.StringVar(&o.node, "node", "", "name of the node")
		flags.StringVar(&o.state, "state", "", "folder of the gate's own, which outlives it")
		needed["driver"], needed["kubelet"], needed["node"], needed["state"] = &o.driver, &o.kubelet, &o.node, &o.state
	} else {
		flags.StringVar(&o.listen, "listen", "", "path of the socket that the attacher connects to")
		flags.StringVar(&o.nodes, "nodes", "", "folder with the sockets of the nodes' drivers, in place of --driver")
		flags.StringVar(&o.suffix, "node-suffix", "", "what follows a node's name in the path of its driver's socket, such as /csi.sock")
		needed["listen"] = &o.listen
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if name == ControllerGate && ((o.driver == "") == (o.nodes == "") || (o.nodes == "") != (o.suffix == "")) {
		fmt.Fprintf(os.Stderr, "%s: want either --driver, or --nodes and --node-suffix\n", name)
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
	err := serve(ctx, o)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	if errors.As(err, new(strangerError)) {
		return CodeStranger
	}
	return 3
}

// stage is what the gate gives the driver, beside its definition.
func (o options) stage(ctx context.Context) (s gate.Stage, def *drivers.Definition, err error) {
	if def, err = drivers.Load(o.definition); err != nil {
		return nil, nil, err
	}
	i := drivers.Instance{DriverName: o.name, NodeID: o.node, Backend: o.backend, Seed: o.seed}
	s, err = def.Stage(ctx, i, o.state, func(format string, args ...any) { fmt.Fprintf(os.Stderr, "gate: "+format+"\n", args...) })
	return s, def, err
}

func serveController(ctx context.Context, o options) error {
	stage, def, err := o.stage(ctx)
	if err != nil {
		return err
	}
	events, err := history.Create(o.events, o.run, history.PrefixCSI+"controller/"+o.name)
	if err != nil {
		return err
	}
	options := gate.Options{Listen: o.listen, Driver: o.driver, DriverName: o.name, History: events, Stage: stage}
	find, start := func() string { return o.driver }, def.ControllerStart()
	if o.nodes != "" {
		nodes := routes{o.nodes, o.suffix}
		options.Route, find, start = nodes.to, nodes.any, def.NodeStart()
	}
	g, err := gate.New(options)
	if err != nil {
		return errors.Join(err, events.Close())
	}
	// Until the driver is ready the gate answers nothing, for which an attacher waits; it ends when it is told that there is no driver.
	err = o.identify(ctx, find, start, def.Wanted())
	if err == nil {
		err = g.Serve(ctx)
	}
	return errors.Join(ending(ctx, err), g.Close(), events.Close())
}

func serveNode(ctx context.Context, o options) error {
	stage, def, err := o.stage(ctx)
	if err != nil {
		return err
	}
	events, err := history.Create(o.events, o.run, history.PrefixCSI+o.node)
	if err != nil {
		return err
	}
	front := filepath.Join(o.kubelet, "plugins", o.name, "csi.sock")
	if err := os.MkdirAll(filepath.Dir(front), 0o755); err != nil {
		return errors.Join(err, events.Close())
	}
	g, err := gate.New(gate.Options{Listen: front, Driver: o.driver, DriverName: o.name, Node: o.node, History: events, Stage: stage})
	if err != nil {
		return errors.Join(err, events.Close())
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx) }()
	// As a registrar sidecar does: register once the driver answers. On the way out, deregister first, so that the kubelet asks nothing any more.
	var wanted []drivers.Wanted
	if !def.ControllerApart() {
		wanted = def.Wanted()
	}
	err = o.identify(ctx, func() string { return o.driver }, def.NodeStart(), wanted)
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
