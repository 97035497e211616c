package kind

import (
	"context"
	"fmt"
	"path"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
)

// moveSocket gives a socket another path. Whoever is connected stays so: a hard link keeps the socket, and the kubelet, which watches the folder, sees a
// removal or a creation.
const moveSocket = `ln "$0" "$1" && rm "$0"`

// SetSocket takes the path of a driver's socket on a node away, "csi" or "registration", or gives it back.
func (c *Cluster) SetSocket(ctx context.Context, node, driver, socket string, there bool) error {
	csi := path.Join(kubeletDir, "plugins", driver, "csi.sock")
	from, ok := map[string]string{"csi": csi, "registration": path.Join(kubeletDir, "plugins_registry", driver+"-reg.sock")}[socket]
	if !ok {
		return fmt.Errorf("driver %q: socket %q: want csi or registration", driver, socket)
	}
	to := csi + "." + socket // where the kubelet looks for nothing
	if there {
		from, to = to, from
	}
	_, err := engine.Run(ctx, "exec", node, "/bin/sh", "-c", moveSocket, from, to)
	return cluster.Environment("move a driver's socket", err)
}

// kubeletDir is the kubelet's directory on every node.
const kubeletDir = "/var/lib/kubelet"
