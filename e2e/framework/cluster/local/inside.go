package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

func init() {
	entry.Register(programCell, cellMain)
	entry.Register(programNode, nodeMain)
}

// Files that the parent hands to the cell's first process.
const (
	lifelineFD = 3 + iota // the read end of a pipe whose other end only the parent holds
	controlFD             // the listening control socket
	apiFD                 // the host's listener for the API server
)

// cell is the first process of a cell: it starts everything else and is the last to end.
type cell struct {
	cfg      cellConfig
	binaries *executables
	events   *history.Writer
	metrics  *history.Writer // what components counted, read before they end
	ca       *authority

	admin     pair
	adminHTTP *http.Client
	client    kubernetes.Interface

	ready    chan struct{} // closed when the control plane is up, or will not come up
	readyErr error
	giveUp   context.CancelFunc // ends the boot

	mu        sync.Mutex
	processes []*process // in the order of starting
	endpoints map[string]*endpoint
	nodes     map[string]*node
	drivers   map[string]*driverController
	nextPort  int
	nextIndex int
}

// cellMain is PID 1 of a cell. Its end is the end of every process in it.
func cellMain([]string) int {
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(lifelineFD, "lifeline")) // returns when the parent is gone, however it went
		os.Exit(1)
	}()
	c, err := newCell(os.Stdin)
	if err != nil {
		fmt.Fprintf(os.Stderr, "headroom: cell: %v\n", err)
		return 1
	}
	go children.reapOrphans()
	control, err := net.FileListener(os.NewFile(controlFD, "control"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "headroom: cell: control socket: %v\n", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.giveUp = cancel
	go c.boot(ctx)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		os.Exit(c.shutdown())
	}()
	err = http.Serve(control, c.handler())
	fmt.Fprintf(os.Stderr, "headroom: cell: control socket: %v\n", err)
	return 1
}

func newCell(in io.Reader) (*cell, error) {
	c := &cell{
		ready: make(chan struct{}), endpoints: map[string]*endpoint{}, nodes: map[string]*node{}, drivers: map[string]*driverController{},
		nextPort: firstNodePort,
	}
	if err := json.NewDecoder(in).Decode(&c.cfg); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c.binaries = &executables{paths: c.cfg.Binaries, gates: c.cfg.Gates}
	var err error
	if c.events, err = history.Create(c.cfg.eventsDir(), c.cfg.Run, history.PrefixComponent+"cell"); err != nil {
		return nil, err
	}
	c.metrics, err = history.Create(c.cfg.eventsDir(), c.cfg.Run, history.PrefixMetric+"cell")
	return c, err
}

// process makes a supervised process of the cell; component is "" for what has no version of its own.
func (c *cell) process(id, component string, command func(versions.Version) (*exec.Cmd, error)) *process {
	p := &process{id: id, log: c.cfg.logFile(id), command: command, events: c.events}
	if component != "" {
		p.version = c.cfg.Versions[component]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p
}

// handler is the cell's control interface.
func (c *cell) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ready", handle(func(ctx context.Context, _ none) (readyAnswer, error) {
		select {
		case <-c.ready:
		case <-ctx.Done():
			return readyAnswer{}, ctx.Err()
		}
		if c.readyErr != nil {
			return readyAnswer{}, c.readyErr
		}
		return readyAnswer{CA: c.ca.pem, Cert: c.admin.cert, Key: c.admin.key}, nil
	}))
	mux.HandleFunc("POST /components", handle(func(ctx context.Context, _ none) ([]componentStatus, error) { return c.components(ctx) }))
	mux.HandleFunc("POST /act", handle(func(ctx context.Context, a action) (none, error) { return none{}, c.act(ctx, a) }))
	mux.HandleFunc("POST /endpoint", handle(func(_ context.Context, r endpointRequest) (none, error) { return none{}, c.setEndpoint(r) }))
	mux.HandleFunc("POST /front", handle(c.setFront))
	mux.HandleFunc("POST /nodes/add", handle(c.addNode))
	mux.HandleFunc("POST /nodes/remove", handle(c.removeNode))
	mux.HandleFunc("POST /drivers/add", handle(c.addDriver))
	mux.HandleFunc("POST /drivers/remove", handle(c.removeDriver))
	mux.HandleFunc("POST /shutdown", func(w http.ResponseWriter, _ *http.Request) {
		code := c.shutdown()
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "{}")
		_ = http.NewResponseController(w).Flush() // the parent may be gone
		os.Exit(code)
	})
	mux.HandleFunc("GET /metrics/{component}", c.serveMetrics)
	mux.Handle("POST "+etcdWatch, httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: etcdClient}))
	// The backend's control interface shares the socket, so that the host needs no second way in.
	mux.Handle("/control/", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: quotaControl}))
	return mux
}

// readyAnswer holds what the runner needs to be the administrator.
type readyAnswer struct {
	CA   []byte `json:"ca"`
	Cert []byte `json:"cert"`
	Key  []byte `json:"key"`
}

// endpointRequest changes one component's way to the API server: its mode or its latency.
type endpointRequest struct {
	Component string         `json:"component"`
	Mode      endpointMode   `json:"mode,omitempty"`
	Latency   *time.Duration `json:"latency,omitempty"` // ns
}

func (c *cell) setEndpoint(r endpointRequest) error {
	c.mu.Lock()
	e, ok := c.endpoints[r.Component]
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("component %q has no endpoint of its own", r.Component)
	}
	if r.Latency != nil {
		return e.delay(*r.Latency)
	}
	return e.set(r.Mode)
}

// components lists the cell's own processes and those of each node agent. A node that comes or goes meanwhile is left out: others may add and remove
// theirs at any time.
func (c *cell) components(ctx context.Context) ([]componentStatus, error) {
	c.mu.Lock()
	own := slices.Clone(c.processes)
	var agents []*node
	for _, n := range c.nodes {
		if n.up {
			agents = append(agents, n)
		}
	}
	c.mu.Unlock()
	var all []componentStatus
	for _, p := range own {
		all = append(all, p.status())
	}
	slices.SortFunc(agents, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	for _, n := range agents {
		var some []componentStatus
		if err := n.control.call(ctx, "/components", none{}, &some); err != nil {
			c.mu.Lock()
			there := c.nodes[n.name] == n
			c.mu.Unlock()
			if !there {
				continue
			}
			return nil, fmt.Errorf("node %s: %w", n.name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// act finds the component and carries the action out, through its node's agent where it lives there.
func (c *cell) act(ctx context.Context, a action) error {
	if a.Version != "" && a.Binary != "" {
		kind, _, _ := strings.Cut(a.ID, "@")
		c.binaries.add(kind, a.Version, a.Binary)
	}
	c.mu.Lock()
	i := slices.IndexFunc(c.processes, func(p *process) bool { return p.id == a.ID })
	var own *process
	if i >= 0 {
		own = c.processes[i]
	}
	_, at, _ := strings.Cut(a.ID, "@")
	name, _, _ := strings.Cut(at, "/")
	n := c.nodes[name]
	c.mu.Unlock()
	switch {
	case own != nil:
		return a.apply(ctx, own)
	case n != nil:
		if a.Do == "stop" && a.ID == "kubelet@"+n.name {
			c.readMetrics(ctx, n)
		}
		return n.control.call(ctx, "/act", a, nil)
	}
	return fmt.Errorf("no component %q in this cluster", a.ID)
}

// shutdown ends nodes first, so that every gate closes its history while the backend still answers; then the backend. Whatever keeps no history
// needs no farewell. It returns the exit code.
func (c *cell) shutdown() int {
	c.giveUp()
	c.mu.Lock()
	own := slices.Clone(c.processes)
	var gates []*driverController
	for _, d := range c.drivers {
		gates = append(gates, d)
	}
	c.mu.Unlock()
	var group sync.WaitGroup
	var errs []error
	stop := func(prefix string, how cluster.Signal) {
		for _, p := range own {
			if strings.HasPrefix(p.id, prefix) {
				group.Go(func() { _ = p.stop(context.Background(), how) }) // stop of a process never fails
			}
		}
		group.Wait()
	}
	c.readAllMetrics()
	stop("node-agent@", cluster.Terminate)
	stop("csi-attacher@", cluster.Kill)
	stop(versions.ProvisionerComponent+"@", cluster.Kill)
	for _, d := range gates {
		errs = append(errs, d.closeGate())
	}
	stop("driver-controller@", cluster.Kill)
	stop("quota", cluster.Terminate)
	errs = append(errs, c.events.Close(), c.metrics.Close())
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(os.Stderr, "headroom: cell: shutdown: %v\n", err)
		return 1
	}
	return 0
}
