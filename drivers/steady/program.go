package steady

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"headroom/drivers/steady/policy"
	"headroom/e2e/framework/unixsocket"
	"headroom/fixtures/quota"
)

// Program is the driver as a program.
type Program struct {
	// Persona finds the mistakes of a persona by name.
	Persona func(name string) (Mistakes, error)
	// Stderr takes messages and the log.
	Stderr io.Writer
}

type flags struct {
	Options
	endpoint, backend, persona string
	seed                       int64
	epoch                      int64
	leaseLife                  time.Duration
	figures                    policy.Config
}

// Run serves until SIGTERM or SIGINT. It returns the exit code: 0 stopped as asked, 1 failed, 2 wrong flags.
func (p Program) Run(args []string) int {
	f, err := p.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "steady: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := p.serve(ctx, f); err != nil {
		fmt.Fprintf(p.Stderr, "steady: %v\n", err)
		return 1
	}
	return 0
}

func (p Program) parse(args []string) (flags, error) {
	f := flags{}
	set := flag.NewFlagSet("steady", flag.ContinueOnError)
	set.SetOutput(p.Stderr)
	set.StringVar((*string)(&f.Mode), "mode", string(ModeAll), "services to serve: node, controller or all")
	set.StringVar(&f.endpoint, "endpoint", "", "unix:///path of the socket to serve on")
	set.StringVar(&f.DriverName, "driver-name", "", "CSI driver name")
	set.StringVar(&f.NodeID, "node-id", "", "CSI node id, and the backend's name of the node")
	set.StringVar(&f.Zone, "zone", "", "zone reported as topology; empty reports none")
	set.StringVar(&f.StateDir, "state-dir", "", "directory of volumes and state")
	set.StringVar(&f.backend, "backend", "", "base URL of the quota backend's data API")
	set.Int64Var(&f.seed, "seed", 0, "seed of the driver's jitter; the node id is mixed in")
	set.StringVar(&f.persona, "persona", "", "known mistake to make; empty makes none")
	set.DurationVar(&f.figures.MinInterval, "min-interval", time.Second, "least time between two backend queries")
	set.DurationVar(&f.figures.CacheAge, "cache-age", 2*time.Second, "how old an answer may be")
	set.DurationVar(&f.figures.LastGoodLife, "last-good-life", 30*time.Second, "how long the last good value stands in an outage")
	set.Int64Var(&f.figures.Step, "step", 2, "most that the answer rises by at once; 0 is not limited")
	set.DurationVar(&f.figures.StepInterval, "step-interval", 10*time.Second, "least time between two rises")
	set.Int64Var(&f.Release, "release", 1, "release of the driver; of several instances on a node, the newest speaks")
	set.Int64Var(&f.epoch, "downgrade-epoch", 0, "raised to roll back: an instance of a higher epoch speaks whatever its release")
	set.DurationVar(&f.leaseLife, "lease-life", 30*time.Second, "how long an instance that was killed keeps older releases from speaking")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	path, isUnix := strings.CutPrefix(f.endpoint, "unix://")
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("argument %q: want flags only", set.Arg(0))
	case !isUnix || !strings.HasPrefix(path, "/"):
		return f, fmt.Errorf("--endpoint %q: want unix:///absolute/path", f.endpoint)
	case len(path) > unixsocket.MaxPath:
		return f, fmt.Errorf("--endpoint %q: path has %d bytes, a Unix socket takes %d: use a shorter directory", f.endpoint, len(path), unixsocket.MaxPath)
	case f.backend == "":
		return f, errors.New("--backend: want the base URL of the quota backend")
	}
	f.endpoint = path
	if err := f.described(); err != nil {
		return f, err
	}
	if f.Mode != ModeController {
		if err := errors.Join(f.figures.Validate(), f.claim().Validate()); err != nil {
			return f, err
		}
	}
	if f.persona != "" {
		var err error
		if f.Mistakes, err = p.Persona(f.persona); err != nil {
			return f, fmt.Errorf("--persona: %w", err)
		}
	}
	return f, nil
}

// claim is what the instance claims of the node's lease.
func (f flags) claim() policy.Claim {
	return policy.Claim{Version: f.Release, Epoch: f.epoch, Life: f.leaseLife, Store: LeaseFile(f.StateDir)}
}

func (p Program) serve(ctx context.Context, f flags) error {
	f.Log = p.Stderr
	holder := "controller"
	if f.Mode != ModeController {
		holder = f.NodeID
	}
	figures, backend := f.Mistakes.Of(f.figures, quota.NewClient(f.backend, holder))
	f.Backend = backend
	if f.Mode != ModeController {
		capacity, err := p.policy(f, figures)
		if err != nil {
			return err
		}
		defer capacity.Close()
		defer capacity.Release()
		f.Policy = capacity
	}
	driver, err := New(f.Options)
	if err != nil {
		return err
	}
	if f.Policy != nil {
		go f.Policy.Run(ctx)
	}
	l, err := listen(f.endpoint)
	if err != nil {
		return err
	}
	return driver.Serve(ctx, l)
}

func (p Program) policy(f flags, figures policy.Config) (*policy.Policy, error) {
	return Capacity(f.StateDir, f.seed, policy.Options{
		Node: f.NodeID, Config: figures, Backend: f.Backend,
		Attachments: func() int64 { return Attachments(f.StateDir) },
		Lease:       f.claim(),
		Logf:        func(format string, args ...any) { fmt.Fprintf(p.Stderr, "steady: "+format+"\n", args...) },
	})
}

// Capacity is a node's policy on this machine, saved in stateDir; o need not have a store, a clock, a boot and a source of randomness.
func Capacity(stateDir string, seed int64, o policy.Options) (p *policy.Policy, err error) {
	if o.Boot, err = policy.Boot(); err != nil {
		return nil, err
	}
	o.Store, o.Clock, o.Rand = StateFile(stateDir), policy.Machine{}, rand.New(rand.NewPCG(uint64(seed), hash(o.Node)))
	return policy.New(o)
}

// listen takes the place of a socket that an earlier instance left.
func listen(path string) (net.Listener, error) {
	l, err := unixsocket.Replace(path)
	if err != nil {
		return nil, err
	}
	// By then the path may belong to the instance that replaces this one.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l, nil
}

// hash makes the random numbers of nodes that share a seed differ.
func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}
