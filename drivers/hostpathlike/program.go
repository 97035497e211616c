package hostpathlike

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"headroom/e2e/framework/unixsocket"
)

// Run is the driver as a program. It serves until SIGTERM or SIGINT and returns the exit code: 0 stopped as asked, 1 failed, 2 wrong flags.
func Run(args []string, stderr io.Writer) int {
	c, endpoint, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "hostpathlike: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, c, endpoint); err != nil {
		fmt.Fprintf(stderr, "hostpathlike: %v\n", err)
		return 1
	}
	return 0
}

// parse reads the flags of csi-driver-host-path that have to do with attaching; any other is refused, because ignoring it would be another driver.
func parse(args []string, stderr io.Writer) (c config, endpoint string, err error) {
	set := flag.NewFlagSet("hostpathlike", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&endpoint, "endpoint", "unix://tmp/csi.sock", "CSI endpoint")
	set.StringVar(&c.driverName, "drivername", "hostpath.csi.k8s.io", "name of the driver")
	set.StringVar(&c.nodeID, "nodeid", "", "node id")
	set.StringVar(&c.stateDir, "statedir", "/csi-data-dir", "directory for what is known across restarts")
	set.Int64Var(&c.maxVolumesPerNode, "maxvolumespernode", 0, "limit of volumes per node, reported only")
	set.Int64Var(&c.attachLimit, "attach-limit", 0, "most volumes that can be attached; 0 is no limit, -1 reports a random number and enforces nothing")
	set.BoolVar(&c.enableAttach, "enable-attach", false, "serve ControllerPublishVolume")
	set.BoolVar(&c.enableTopology, "enable-topology", true, "report the node as topology")
	set.Int64Var(&c.maxVolumeSize, "max-volume-size", 1<<40, "largest size of a volume in bytes")
	set.Int("v", 0, "log level, which changes nothing here")
	if err := set.Parse(args); err != nil {
		return c, "", err
	}
	switch {
	case set.NArg() > 0:
		return c, "", fmt.Errorf("argument %q: want flags only", set.Arg(0))
	case c.driverName == "":
		return c, "", errors.New("no driver name provided")
	case c.nodeID == "":
		return c, "", errors.New("no node id provided")
	}
	path, isUnix := strings.CutPrefix(endpoint, "unix://")
	if !isUnix || path == "" {
		return c, "", fmt.Errorf("--endpoint %q: want unix://path", endpoint)
	}
	return c, path, nil
}

func serve(ctx context.Context, c config, path string) error {
	d, err := newDriver(c)
	if err != nil {
		return err
	}
	l, err := unixsocket.Replace(path)
	if err != nil {
		return err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // by then the path may belong to the process that replaces this one
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	defer context.AfterFunc(ctx, server.GracefulStop)()
	if err := server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}
