package kind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/fixtures/manifests"
)

// This file is what the nodes of a driver need one by one, and what a driver needs whose nodes serve the controller calls.

// definitionKey is the annotation of a driver's Deployment that names its definition: who adds a node knows the driver's name only.
const definitionKey = "headroom.dev/definition"

// anySet is the set of the nodes of a driver that is given no limit.
const anySet = "true"

// sockets is where the nodes of a driver listen that serve controller calls, below the run directory. Every node has that, and all nodes have one kernel,
// so that the gate of the controller reaches each driver as if it ran beside it.
func sockets(id string) string { return filepath.Join("kind", "drivers", id) }

// socketsDir is the same on the host.
func (s shape) socketsDir(id string) string { return filepath.Join(s.RunDir, sockets(id)) }

// load is a driver's definition, with what drivers.Load takes for it.
func (s shape) load(definition string) (*drivers.Definition, string, error) {
	reference, ok := s.Drivers[definition]
	if !ok {
		return nil, "", fmt.Errorf("driver definition %q is not part of this run", definition)
	}
	def, err := drivers.Load(reference)
	return def, reference, err
}

// scale is what waits for drivers are stretched by.
func (s shape) scale() float64 { return cmp.Or(s.Scale, 1) }

// driverTimeout bounds the wait for a driver's pod, or its registration. The gate beside it gives up before that, and says why.
func (s shape) driverTimeout(start drivers.Start) time.Duration {
	return readyTimeout + start.Within(s.scale())
}

// instance is what every process of a driver is told.
func (s shape) instance(driver string) drivers.Instance {
	return drivers.Instance{
		Endpoint: "unix:///csi/driver.sock", DriverName: driver, StateDir: "/state", Backend: fmt.Sprintf("http://%s:%d", s.Address, quotaPort), Seed: s.Seed,
	}
}

// nodeManifest is a driver's part on its nodes of one set, those with the same limit where it is given one.
func (c *Cluster) nodeManifest(driver, definition string, limit int64) (text []byte, set string, def *drivers.Definition, err error) {
	def, reference, err := c.load(definition)
	if err != nil {
		return nil, "", nil, err
	}
	i := c.instance(driver)
	i.NodeID = "$(NODE_NAME)" // the kubelet fills it in
	if i.Limit, set = limit, anySet; def.Uses("LIMIT") {
		set = strconv.FormatInt(limit, 10)
	}
	if !def.HasController() {
		i.Endpoint = "unix:///csi/" + i.NodeID + ".sock"
	}
	node, err := def.NodeCommand(i)
	if err != nil {
		return nil, "", nil, err
	}
	values := c.values(def, driver, definition, reference)
	values.Node, values.Set, values.Endpoint = words(node), set, i.Endpoint
	text, err = manifests.Render("driver-node.yaml", values)
	return text, set, def, err
}

// values are those that both parts of a driver take.
func (c *Cluster) values(def *drivers.Definition, driver, definition, reference string) manifests.Driver {
	i := c.instance(driver)
	v := manifests.Driver{
		Base: c.base(), ID: idOf(driver), Name: driver, Definition: definition, Reference: reference, Backend: i.Backend, Seed: i.Seed, Scale: c.scale(),
		Attacher: c.Attacher, APIServer: c.Address,
	}
	if def.Dynamic() {
		v.Provisioner = c.Provisioner
	}
	if !def.ControllerApart() {
		v.Sockets = sockets(v.ID)
	}
	return v
}

// putDriver lets a driver run on the nodes that carry its label with the value returned.
func (c *Cluster) putDriver(ctx context.Context, driver string, limit int64) (set string, def *drivers.Definition, err error) {
	if def, err := c.addedPods(ctx, driver); err != nil || def != nil {
		return anySet, def, err
	}
	d, err := c.client.AppsV1().Deployments(namespace).Get(ctx, "controller-"+idOf(driver), metav1.GetOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("driver %q was not added to the cluster: %w", driver, err)
	}
	text, set, def, err := c.nodeManifest(driver, d.Annotations[definitionKey], limit)
	if err == nil {
		err = c.apply(ctx, text)
	}
	if apierrors.IsAlreadyExists(err) {
		err = nil // for another node
	}
	return set, def, err
}

// startController starts the gate and the attacher of a driver whose nodes serve controller calls, now that one of them does. It does nothing where
// they run.
func (c *Cluster) startController(ctx context.Context, driver string, start drivers.Start) error {
	patch := []byte(`{"spec": {"replicas": 1}}`)
	if _, err := c.client.AppsV1().Deployments(namespace).Patch(ctx, "controller-"+idOf(driver), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return c.awaitPod(ctx, start, podsOf(idOf(driver), controllerPart), &cluster.DriverError{Driver: driver}, "")
}

// makeSockets makes the folder of sockets. It is this user's, whoever makes sockets in it, so that it can be removed.
func (c *Cluster) makeSockets(driver string) error {
	return os.MkdirAll(c.socketsDir(idOf(driver)), 0o755)
}

// makeNodeSockets makes it with a folder for each node, and what of that the drivers' containers have, for drivers of whatever user.
func (c *Cluster) makeNodeSockets(driver, shared string) error {
	if err := c.makeSockets(driver); err != nil {
		return err
	}
	for _, node := range c.Workers {
		dir := filepath.Join(c.socketsDir(idOf(driver)), node)
		for _, name := range append([]string{""}, strings.Split(shared, "/")...) {
			dir = filepath.Join(dir, name)
			// What is asked of Mkdir is less where the umask says so.
			if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeSockets removes the folder of sockets. What drivers made in it as root is not an ordinary user's to remove, and a node's.
func (c *Cluster) removeSockets(ctx context.Context, id string) error {
	err := os.RemoveAll(c.socketsDir(id))
	if errors.Is(err, fs.ErrPermission) {
		_, err = engine.Run(ctx, "exec", c.controlPlane(), "rm", "-rf", path.Join(nodeRunDir, sockets(id)))
	}
	return err
}
