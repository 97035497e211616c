package drivers

import (
	"context"
	"os"

	"headroom/drivers/gate"
)

// Stage is what the gate before an instance gives the driver; nil when it lacks nothing. state is a directory of the gate's own on a node, which is made
// here; "" before a controller. A policy that comes with it runs until ctx ends.
func (d *Definition) Stage(ctx context.Context, i Instance, state string, logf func(format string, args ...any)) (gate.Stage, error) {
	if !d.Bridged() {
		return nil, nil
	}
	if state != "" {
		if err := os.MkdirAll(state, 0o755); err != nil {
			return nil, err
		}
	}
	b, capacity, err := d.Bridge(i, state, logf)
	if err != nil {
		return nil, err
	}
	if capacity != nil {
		go capacity.Run(ctx)
	}
	return b, nil
}
