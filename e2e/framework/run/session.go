package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/observe"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/scenario"
	"headroom/fixtures/quota"
)

// fileSession tells the other processes of a run how to reach it.
const fileSession = "session.json"

// Session is a run, in the process that made it or in one that joined it.
type Session struct {
	// Dir is the run directory, absolute.
	Dir    string
	Header history.Header
	// Definition is the driver under test as the cluster knows it.
	Definition string
	Cluster    cluster.Cluster
	Client     kubernetes.Interface
	// Binaries are the run's executables by component, for what can be shown without a cluster; empty where the run has none of its own.
	Binaries map[string]string
	Quota    *quota.Control
	// Scale stretches what is waited for; see Options.
	Scale float64

	process string
	specs   *history.Writer
	work    *history.Writer
	stop    context.CancelFunc // ends this process's observers
	group   sync.WaitGroup

	mu       sync.Mutex
	problems []report.EnvironmentProblem
	count    int

	// Of the process that made the run only:
	owner *owner
}

// owner is what only the maker of a run has.
type owner struct {
	phases  *history.Writer
	watches *observe.Watches
	// faults and scenarios are opened by the first scenario that is played.
	faults    *history.Writer
	scenarios *history.Writer
	// stopMetrics ends the reading of metrics; nil before it began.
	stopMetrics func()
}

// joinInfo is the content of session.json.
type joinInfo struct {
	Header     history.Header `json:"header"`
	Definition string         `json:"definition"`
	// Binaries are the run's executables by component.
	Binaries map[string]string `json:"binaries,omitempty"`
	Scale    float64           `json:"scale"`
	// Cluster is what the provider's Attach takes.
	Cluster json.RawMessage `json:"cluster"`
}

// Start makes a run: its directory, its binaries, its cluster and its observers. On error everything is taken away again but the run directory,
// once it holds logs. A mistake of the user's is a *cluster.InputError.
func Start(ctx context.Context, o Options) (_ *Session, err error) {
	p, err := prepare(o)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(p.Out, "run %s  driver %s  seed %d  %s\n", p.run, p.definition.Name, p.Seed, p.RunDir)
	provider, err := p.newProvider(ctx)
	if err != nil {
		if p.dirMade {
			_ = os.Remove(p.RunDir) // which fails once something is in it
		}
		return nil, err
	}
	s := &Session{Dir: p.RunDir, Header: p.header, Definition: p.definition.Name, Binaries: p.executables, Scale: p.Scale, process: "runner", owner: &owner{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abandon(context.WithoutCancel(ctx)))
		}
	}()
	if s.owner.phases, err = history.Create(s.events(), p.run, history.SourcePhase); err != nil {
		return nil, cluster.Environment("open the history", err)
	}
	s.Phase("create")
	if s.Cluster, err = provider.Create(ctx, scenario.Topology{Kubernetes: p.Kubernetes}); err != nil {
		return nil, err
	}
	if c, ok := s.Cluster.(equipped); ok {
		s.Binaries = c.Executables()
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	alive, release := while(ctx, s.Cluster.Done())
	defer release()
	if s.owner.watches, err = observe.Watch(alive, s.Cluster.RESTConfig(), s.events(), p.run, memoryOf(s.Cluster)); err != nil {
		return nil, cluster.Environment("watch the cluster", err)
	}
	s.observe(func(ctx context.Context) error { return observe.Probe(ctx, s.Cluster.RESTConfig(), s.events(), p.run) })
	s.owner.stopMetrics = s.readMetrics()
	if err := s.publish(); err != nil {
		return nil, cluster.Environment("write the session", err)
	}
	s.Phase("steady")
	return s, nil
}

// memoryOf is what the cluster's store remembers; nil where it cannot be asked.
func memoryOf(c cluster.Cluster) observe.Memory {
	if r, ok := c.(cluster.Remembering); ok {
		return r.Changes
	}
	return nil
}

// While calls f with a context that ends with the cluster as well.
func (s *Session) While(ctx context.Context, f func(context.Context)) {
	ctx, release := while(ctx, s.Done())
	defer release()
	f(ctx)
}

// errEnded is the cause of what the cluster's end cut short.
var errEnded = errors.New("the cluster ended before the run did; its last words are in logs/cell.log")

// while is a context that ends with the cluster as well, whose end is its cause then: nobody answers any more.
func while(ctx context.Context, ended <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ended:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Join reaches a run that another process made.
func Join(ctx context.Context, dir, process string) (*Session, error) {
	info, err := readJoinInfo(dir)
	if err != nil {
		return nil, cluster.Environment("join the run", err)
	}
	c, err := attach(ctx, dir, info)
	if err != nil {
		return nil, err
	}
	s := &Session{Dir: dir, Header: info.Header, Definition: info.Definition, Binaries: info.Binaries, Scale: info.Scale, Cluster: c, process: process}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func readJoinInfo(dir string) (info joinInfo, err error) {
	b, err := os.ReadFile(filepath.Join(dir, fileSession))
	if err != nil {
		return info, err
	}
	return info, json.Unmarshal(b, &info)
}

// Stretch is what a wait of d may take in this run.
func (s *Session) Stretch(d time.Duration) time.Duration {
	if s.Scale == 0 {
		return d
	}
	return stretch(d, s.Scale)
}

// StretchIn is Stretch for a run that is not joined yet; d itself where there is none.
func StretchIn(dir string, d time.Duration) time.Duration {
	if info, err := readJoinInfo(dir); err == nil {
		return (&Session{Scale: info.Scale}).Stretch(d)
	}
	return d
}

// open makes this process's clients and history files and starts its heartbeat.
func (s *Session) open(ctx context.Context) (err error) {
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if s.Client, err = kubernetes.NewForConfig(s.Cluster.RESTConfig()); err != nil {
		return cluster.Environment("make a client", err)
	}
	s.Quota = quota.NewControl(s.Cluster.Backend())
	if s.specs, err = history.Create(s.events(), s.Header.Run, history.PrefixSpec+s.process); err != nil {
		return cluster.Environment("open the history", err)
	}
	if s.work, err = history.Create(s.events(), s.Header.Run, history.PrefixWorkload+s.process); err != nil {
		return cluster.Environment("open the history", err)
	}
	s.group.Go(func() { s.Problem("keep the heartbeat", observe.Beat(ctx, s.events(), s.Header.Run, s.process)) })
	return nil
}

// observe runs an observer until the session closes.
func (s *Session) observe(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	before := s.stop
	s.stop = func() { cancel(); before() }
	s.group.Go(func() { s.Problem("observe", f(ctx)) })
}

// Close ends this process's part in the run.
func (s *Session) Close() error {
	if s.stop != nil {
		s.stop()
	}
	s.group.Wait()
	return errors.Join(s.specs.Close(), s.work.Close())
}

// Phase begins a phase of the run.
func (s *Session) Phase(name string) {
	s.owner.phases.Write(history.Event{Phase: history.Observed, Key: name})
}

// Problem notes a failure of the harness, for the report; nil is none.
func (s *Session) Problem(op string, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := report.EnvironmentProblem{Op: op, Error: err.Error()}
	var env *cluster.EnvironmentError
	if errors.As(err, &env) {
		p = report.EnvironmentProblem{Op: env.Op, Error: env.Err.Error(), Remedy: env.Remedy}
	}
	s.problems = append(s.problems, p)
}

// Writer opens the history of a further source of the run; its caller closes it.
func (s *Session) Writer(source string) (*history.Writer, error) {
	w, err := history.Create(s.events(), s.Header.Run, source)
	return w, cluster.Environment("open the history", err)
}

// EventsDir is where the run's writers write while it goes on.
func (s *Session) EventsDir() string { return s.events() }

func (s *Session) events() string { return filepath.Join(s.Dir, "events") }

// publish writes what other processes and the user need to reach the cluster.
func (s *Session) publish() error {
	info := joinInfo{Header: s.Header, Definition: s.Definition, Binaries: s.Binaries, Scale: s.Scale, Cluster: s.Cluster.Handle()}
	if err := writeJSON(filepath.Join(s.Dir, fileSession), info); err != nil {
		return err
	}
	return writeKubeconfig(s.Kubeconfig(), s.Cluster.RESTConfig())
}

// Kubeconfig is the administrator's kubeconfig, while the cluster lives.
func (s *Session) Kubeconfig() string { return filepath.Join(s.Dir, report.FileKubeconfig) }

// QuotaAddress is where `headroom quota --control` reaches the backend, while the cluster lives.
func (s *Session) QuotaAddress() string { return "unix:" + filepath.Join(s.Dir, "control.sock") }

func writeKubeconfig(path string, r *rest.Config) error {
	const name = "headroom"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: r.Host, CertificateAuthorityData: r.CAData}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: r.CertData, ClientKeyData: r.KeyData}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	b, err := clientcmd.Write(*c)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// AwaitEnd returns when the cluster has ended, for a process that joined the run.
func (s *Session) AwaitEnd() { s.Cluster.AwaitEnd() }
