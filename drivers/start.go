package drivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Start is how a process of a driver is known to have started.
type Start struct {
	Ready Readiness
	// Limit bounds the time from start to ready; 0 means a minute.
	Limit time.Duration
}

// MaxScale is the most that waits for a driver are stretched by: a minute becomes most of a day.
const MaxScale = 1000

// GoodScale says whether waits for a driver can be stretched by a number.
func GoodScale(scale float64) bool { return scale >= 1 && scale <= MaxScale } // false for NaN, too

// Within is the time from start to ready, stretched by a scale.
func (s Start) Within(scale float64) time.Duration {
	return time.Duration(float64(cmp.Or(s.Limit, time.Minute)) * scale)
}

// NodeStart is how the process on a node is known to have started.
func (d *Definition) NodeStart() Start { return d.node.start }

// ControllerStart is the same of the controller process.
func (d *Definition) ControllerStart() Start { return d.controller.start }

// identifyLimit bounds each call of Identify.
const identifyLimit = 15 * time.Second

// Identify looks whether what serves on a socket is the driver that was started: a CSI driver, under the name that it was given and, where controller says
// that it has a controller, one that does what is wanted of it. scale stretches the time that an answer may take. Each error says what to try.
func Identify(ctx context.Context, socket, name string, wanted []Wanted, scale float64) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close() // it carries nothing any more
	limit := time.Duration(float64(identifyLimit) * scale)
	ask := func(what string, f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		switch err := f(ctx); status.Code(err) {
		case codes.OK:
			return nil
		case codes.Unimplemented:
			return fmt.Errorf("%s is not implemented: what answers on its socket is no CSI driver, or has not this service (%w)\n"+
				"  try: is it the program and the mode that serves CSI on ${ENDPOINT}?", what, err)
		case codes.DeadlineExceeded:
			return fmt.Errorf("%s: no answer within %s: it hangs, or speaks no gRPC (%w)\n  try: headroom driver check; for a debugger, --timeout-scale", what, limit, err)
		default:
			return fmt.Errorf("%s: %w\n  try: does it speak CSI over gRPC on ${ENDPOINT}?", what, err)
		}
	}
	identity := csi.NewIdentityClient(conn)
	var info *csi.GetPluginInfoResponse
	err = ask("GetPluginInfo", func(ctx context.Context) (err error) {
		info, err = identity.GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
		return err
	})
	if err != nil {
		return err
	}
	if info.GetName() != name {
		return fmt.Errorf("GetPluginInfo: want the name that it was given, %q, got %q: the external-attacher goes by it\n"+
			"  try: pass ${DRIVER_NAME} to it, such as --drivername=${DRIVER_NAME}", name, info.GetName())
	}
	if len(wanted) == 0 {
		return nil
	}
	var plugin *csi.GetPluginCapabilitiesResponse
	err = ask("GetPluginCapabilities", func(ctx context.Context) (err error) {
		plugin, err = identity.GetPluginCapabilities(ctx, &csi.GetPluginCapabilitiesRequest{})
		return err
	})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(plugin.GetCapabilities(), func(c *csi.PluginCapability) bool {
		return c.GetService().GetType() == csi.PluginCapability_Service_CONTROLLER_SERVICE
	}) {
		return errors.New("GetPluginCapabilities: want CONTROLLER_SERVICE, got none: a driver that attaches nothing has no attach capacity\n" +
			"  try: write its controller process under controller, or start it in a mode that serves both")
	}
	var caps *csi.ControllerGetCapabilitiesResponse
	err = ask("ControllerGetCapabilities", func(ctx context.Context) (err error) {
		caps, err = csi.NewControllerClient(conn).ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(caps.GetCapabilities(), func(c *csi.ControllerServiceCapability) bool { return c.GetRpc().GetType() == w.capability }) {
			return fmt.Errorf("ControllerGetCapabilities: want %s, got none: %s\n  try: %s", w.capability, w.why, w.try)
		}
	}
	return nil
}

// Wanted is a capability that a controller must have.
type Wanted struct {
	capability csi.ControllerServiceCapability_RPC_Type
	why, try   string
}

// Wanted is what the definition asks of the process that serves controller calls.
func (d *Definition) Wanted() []Wanted {
	all := []Wanted{{
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		"a driver that attaches nothing has no attach capacity", "the flag that turns attaching on, such as --enable-attach",
	}}
	if d.Dynamic() {
		all = append(all, Wanted{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
			"external-provisioner ends beside a driver that makes no volumes", "volumes: {provisioning: static} in its definition",
		})
	}
	return all
}

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
