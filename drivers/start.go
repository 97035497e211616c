package drivers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Start is how a process of a driver is known to have started.
type Start struct {
	Ready Readiness
	// Limit bounds the time from start to ready; 0 leaves it to the caller.
	Limit time.Duration
}

// NodeStart is how the process on a node is known to have started.
func (d *Definition) NodeStart() Start { return d.node.start }

// ControllerStart is the same of the controller process.
func (d *Definition) ControllerStart() Start { return d.controller.start }

// Check is nil once the process that serves on a socket, given by its path, is ready.
func (s Start) Check(ctx context.Context, socket string) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil || s.Ready != ReadyProbe {
		return err
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close() // it carries nothing any more
	answer, err := csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{})
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if answer.GetReady() != nil && !answer.GetReady().GetValue() {
		return errors.New("probe: the driver says that it is not ready")
	}
	return nil
}
