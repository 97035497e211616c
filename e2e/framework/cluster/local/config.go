package local

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/drivers"
	"headroom/e2e/framework/versions"
)

// Places inside a cell. They are fixed, because every cell has a file system and a network of its own.
const (
	stateDir    = "/var/lib/headroom" // on the cell's tmpfs
	kubeletDir  = "/var/lib/kubelet"  // in each node's own mount namespace
	cellAddress = "10.99.0.1"         // the nodes' InternalIP
	gatewayIP   = "10.99.0.2"

	etcdClient    = "127.0.0.1:2379"
	etcdPeer      = "127.0.0.1:2380"
	apiServer     = "127.0.0.1:6443"
	quotaData     = "127.0.0.1:8970"
	quotaControl  = "127.0.0.1:8971"
	managerPort   = 10257
	schedulerPort = 10259
	firstNodePort = 20000 // kubelets and attachers count up from here
)

// Programs of this binary that run inside a cell.
const (
	programCell = "cell"
	programNode = "node"
)

// cellConfig is what the parent tells the cell's first process, on its standard input.
type cellConfig struct {
	Run      string   `json:"run"`
	RunDir   string   `json:"runDir"`
	Rootless bool     `json:"rootless"`
	Binaries Binaries `json:"binaries"`
	// Versions maps a component kind to the version that it starts with.
	Versions map[string]versions.Version `json:"versions"`
	// Gates are feature gates by component kind.
	Gates map[string]map[string]bool `json:"gates,omitempty"`
	// Drivers maps what DriverSpec.Definition may name to what drivers.Load takes.
	Drivers map[string]string `json:"drivers"`
	// NewRelease maps a definition to the one that plays its releases from 2 on.
	NewRelease map[string]string `json:"newRelease,omitempty"`
	// LeaseSeconds is how long a kubelet's lease is good for; 0 is its default.
	LeaseSeconds int `json:"leaseSeconds,omitempty"`
	// Figures replace the declared figures of drivers, by definition.
	Figures map[string]drivers.Figures `json:"figures,omitempty"`
	// Preserve are directories that must stay visible when /var/lib is covered by the cell's own.
	Preserve []string `json:"preserve"`
	Seed     int64    `json:"seed"`
	// Scale stretches the limits on the starts of drivers; 0 means 1.
	Scale float64 `json:"scale,omitempty"`
}

// Binaries maps a component kind to its versions' executables: {"kubelet": {"v1.36.3": "/..."}}.
type Binaries map[string]map[versions.Version]string

// executables is the table of a running cell or node agent; versions can be added while it runs.
type executables struct {
	mu    sync.Mutex
	paths Binaries
	gates map[string]map[string]bool
}

// add makes another version known.
func (t *executables) add(component string, v versions.Version, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paths[component] == nil {
		t.paths[component] = map[versions.Version]string{}
	}
	t.paths[component][v] = path
}

// command returns a command function for a component's executable at any version known.
func (t *executables) command(component string, args ...string) func(versions.Version) (*exec.Cmd, error) {
	return func(v versions.Version) (*exec.Cmd, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		path, ok := t.paths[component][v]
		if !ok {
			return nil, fmt.Errorf("no %s %s among the binaries of this run", component, v)
		}
		return exec.Command(path, append(slices.Clone(args), t.gateFlags(component)...)...), nil
	}
}

// gateFlags set a component's feature gates.
func (t *executables) gateFlags(component string) []string {
	var set []string
	for _, gate := range slices.Sorted(maps.Keys(t.gates[component])) {
		set = append(set, fmt.Sprintf("%s=%t", gate, t.gates[component][gate]))
	}
	if len(set) == 0 {
		return nil
	}
	return []string{"--feature-gates", strings.Join(set, ",")}
}

func (c *cellConfig) logFile(id string) string {
	return filepath.Join(c.RunDir, "logs", filepath.FromSlash(id)+".log")
}

// driver loads one of the run's driver definitions.
func (c *cellConfig) driver(name string) (*drivers.Definition, error) {
	reference, ok := c.Drivers[name]
	if !ok {
		return nil, fmt.Errorf("driver definition %q is not part of this run", name)
	}
	def, err := drivers.Load(reference)
	if figures, ok := c.Figures[name]; ok && err == nil {
		def.Figures = figures
	}
	return def, err
}

// firstRelease is the release of a driver that everything begins with.
const firstRelease = "1"

// release loads the definition that plays a release of a driver; "" is the first.
func (c *cellConfig) release(name string, release versions.Version) (*drivers.Definition, error) {
	if to, ok := c.NewRelease[name]; ok && release != "" && release != firstRelease {
		name = to
	}
	return c.driver(name)
}

// startLimit bounds the start of a driver's process that has d of its own, 0 for none.
func (c *cellConfig) startLimit(d time.Duration) time.Duration {
	return drivers.Start{Limit: d}.Within(c.scale())
}

// scale is what waits for drivers are stretched by.
func (c *cellConfig) scale() float64 { return cmp.Or(c.Scale, 1) }

func (c *cellConfig) eventsDir() string { return filepath.Join(c.RunDir, "events") }

// nodeConfig is what the cell tells a node agent, on its standard input.
type nodeConfig struct {
	Cell       cellConfig        `json:"cell"`
	Node       string            `json:"node"`
	Labels     map[string]string `json:"labels"`
	Zone       string            `json:"zone"`
	Limit      int64             `json:"limit,omitempty"`
	Kubelet    versions.Version  `json:"kubelet"`
	Drivers    []nodeDriver      `json:"drivers"`
	Port       int               `json:"port"`       // of the kubelet; Port+1 is its health port
	Index      int               `json:"index"`      // gives the node a pod network of its own
	Kubeconfig string            `json:"kubeconfig"` // uses this node's own way to the API server
}

// nodeDriver is one driver on a node.
type nodeDriver struct {
	Name       string `json:"name"`
	Definition string `json:"definition"`
}

// dir is the node's directory on the cell's tmpfs, the same path inside and outside the node's mount namespace.
func nodeDir(node string) string { return filepath.Join(stateDir, "nodes", node) }

// driverSocket is where a driver's node process listens, behind its gate. The driver's name is hashed, because a socket's path holds 107 bytes and
// both names may have 63.
func driverSocket(node, driver string) string {
	sum := sha256.Sum256([]byte(driver))
	return filepath.Join(nodeDir(node), "d", hex.EncodeToString(sum[:4])+".sock")
}

// driverState is a directory of a driver's node process that outlives it.
func driverState(node, driver string) string { return filepath.Join(nodeDir(node), "drivers", driver) }

// controllerDir is where a driver's controller and its gate live.
func controllerDir(driver string) string { return filepath.Join(stateDir, "drivers", driver) }
