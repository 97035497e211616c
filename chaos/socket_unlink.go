package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"

	"headroom/e2e/framework/scenario"
)

// unlinkParams say which socket goes.
type unlinkParams struct {
	// Socket is csi or registration.
	Socket string `yaml:"socket,omitempty"`
}

// Check implements scenario.Checked.
func (p *unlinkParams) Check() (field, remedy string, err error) {
	if p.Socket != socketCSI && p.Socket != socketRegistration {
		return "socket", "write " + socketCSI + " or " + socketRegistration, fmt.Errorf("no socket %q", p.Socket)
	}
	return "", "", nil
}

func init() {
	define(Fault{
		Name: "socket-unlink", Targets: []scenario.Class{scenario.NodeDriver}, Supports: needsRegistry,
		Doc: "The path of a driver's socket is gone, while the driver goes on serving it: whoever connects anew does not find it. Healing gives the path " +
			"back to the same socket.",
	}, unlinkParams{Socket: socketCSI}, func(ctx context.Context, t Target, _ *rand.Rand, p *unlinkParams) (Heal, error) {
		c := t.Cluster.(registry)
		if err := c.SetSocket(ctx, t.Node(), t.Driver, p.Socket, false); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return c.SetSocket(ctx, t.Node(), t.Driver, p.Socket, true) }, nil
	})
}
