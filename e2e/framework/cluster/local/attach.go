package local

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"headroom/e2e/framework/cluster"
)

// Handle is what Attach needs in another process.
func (c *Cluster) Handle() json.RawMessage { return json.RawMessage(strconv.Itoa(c.port)) }

// Attach reaches a cell that another process made in the same run directory; o needs RunDir only, and Fetch if components shall be upgraded. The
// cell's life stays its maker's: Destroy of an attached cluster is an error.
func Attach(ctx context.Context, o Options, handle json.RawMessage) (*Cluster, error) {
	port, err := strconv.Atoi(string(handle))
	if err != nil {
		return nil, cluster.Environment("attach to the cell", fmt.Errorf("handle: want a port: %w", err))
	}
	c := &Cluster{options: o, port: port}
	if err := c.connect(ctx); err != nil {
		return nil, cluster.Environment("attach to the cell", err)
	}
	return c, nil
}

// Reserve has nothing to keep: a cell makes as many nodes as are asked for, under the names given. It only looks whether as many kubelets can start.
func (c *Cluster) Reserve(_ context.Context, specs []cluster.NodeSpec) ([]string, error) {
	if err := inotifyLeft(len(specs), func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) }, unix.Close); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(specs))
	for _, s := range specs {
		names = append(names, s.Name)
	}
	return names, nil
}
