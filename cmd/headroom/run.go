package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2/ginkgo/command"
	ginkgorun "github.com/onsi/ginkgo/v2/ginkgo/run"
	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/suite"
)

// programGinkgo is Ginkgo's own command line, linked in: it starts the parallel spec processes and hands out the specs.
const programGinkgo = "ginkgo"

func init() {
	entry.Register(programGinkgo, func(args []string) int {
		command.Program{Name: "ginkgo", Commands: []command.Command{ginkgorun.BuildRunCommand()}}.RunAndExit(append([]string{"ginkgo"}, args...))
		return 0
	})
}

// interruptLimit is how long interrupted specs may take to put their benches away.
const interruptLimit = 60 * time.Second

// selection says which specs to run.
type selection struct {
	focus, labels string
	specs         []string // the ids that both choose
	procs         int
	keep          bool
}

func runCommand() *cobra.Command {
	var o run.Options
	var sel selection
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the specs on a new cluster and judge what happened",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sel.procs < 1 || sel.procs > 32 {
				return usageError{fmt.Errorf("--procs %d: want 1 to 32", sel.procs)}
			}
			var err error
			if sel.specs, err = suite.Select(sel.focus, sel.labels); err != nil {
				return usageError{err}
			}
			if o.Provider == "kind" && !cmd.Flags().Changed("procs") {
				sel.procs = 1 // there are few nodes: specs would only wait for each other
			}
			o.Out = cmd.ErrOrStderr()
			return runSpecs(cmd, o, sel)
		},
	}
	runFlags(cmd, &o)
	f := cmd.Flags()
	f.StringVar(&sel.focus, "focus", "", "run only specs whose id matches the regular expression")
	f.StringVar(&sel.labels, "label-filter", "", "run only specs whose labels match, such as '!slow' or 'smoke'")
	f.IntVar(&sel.procs, "procs", 4, "parallel spec processes; 1 with --provider kind unless given")
	f.BoolVar(&sel.keep, "keep", false, "keep the cluster, and the benches of failed specs, until Ctrl-C")
	return cmd
}

func runSpecs(cmd *cobra.Command, o run.Options, sel selection) error {
	ctx := cmd.Context()
	s, err := run.Start(ctx, o)
	if err != nil {
		return err
	}
	release, err := register(s.Dir)
	if err != nil {
		return errors.Join(err, s.End(context.WithoutCancel(ctx)))
	}
	defer release()
	if err = execute(cmd, s, sel); err == nil {
		err = s.Complete(sel.procs, sel.specs)
	}
	s.Problem("run the specs", err)
	if sel.keep && ctx.Err() == nil {
		say(cmd.ErrOrStderr(), "kept: export KUBECONFIG=%s\nCtrl-C, or `headroom down`, ends it.\n", s.Kubeconfig())
		select {
		case <-ctx.Done():
		case <-s.Done():
		}
	}
	r, err := s.Finish(ctx)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if err := report.Table(out, r, report.Options{Dir: s.Dir, Colour: report.Colour(out)}); err != nil {
		return cluster.Environment("print the report", err)
	}
	if code := report.ExitCode(r); code != 0 {
		return exitError{code: code}
	}
	return nil
}

// execute runs the specs in processes of their own, shows their progress, and returns what kept them from running. A spec that fails is no error
// here: it is in the history.
func execute(cmd *cobra.Command, s *run.Session, sel selection) error {
	ctx := cmd.Context()
	link := filepath.Join(s.Dir, ".headroom.test") // Ginkgo takes a file of this kind of name for a compiled suite
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Symlink(self, link); err != nil {
		return err
	}
	defer os.Remove(link)
	log, err := os.Create(filepath.Join(s.Dir, "logs", "specs.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"run", "--no-color", "--silence-skips", "--keep-going", "--procs", strconv.Itoa(sel.procs), "--seed", strconv.FormatInt(s.Header.Seed, 10),
		"--focus", suite.Focus(sel.specs)}
	ginkgo := entry.Command(programGinkgo, append(args, link)...)
	ginkgo.Env = append(os.Environ(), suite.EnvRunDir+"="+s.Dir)
	if sel.keep {
		ginkgo.Env = append(ginkgo.Env, suite.EnvKeep+"=1")
	}
	ginkgo.Stdout, ginkgo.Stderr = log, log
	ginkgo.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL} // Ctrl-C reaches this process first
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	followed := make(chan error, 1)
	go func() { followed <- report.Follow(follow, filepath.Join(s.Dir, "events"), cmd.ErrOrStderr()) }()
	err = supervise(ctx, s, ginkgo)
	stop()
	return errors.Join(err, <-followed)
}

// supervise waits for the spec processes. They are interrupted with the run, and killed when the cluster is gone or one of them died: the others
// would go on beside what it left, and the run could not be conclusive any more.
func supervise(ctx context.Context, s *run.Session, ginkgo *exec.Cmd) error {
	if err := ginkgo.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- ginkgo.Wait() }()
	group := -ginkgo.Process.Pid
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	died := make(chan error, 1)
	go func() { died <- s.AwaitDeath(watch) }()
	var cause error
	for {
		select {
		case err := <-done:
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Exited() {
				err = nil // some specs failed
			}
			_ = syscall.Kill(group, syscall.SIGKILL) // spec processes that lost their head
			return errors.Join(cause, err)
		case err := <-died:
			select {
			case <-s.Done(): // so they went with the cluster
				continue
			case <-time.After(time.Second):
			}
			_ = syscall.Kill(group, syscall.SIGKILL)
			return errors.Join(cause, err, ignoreKill(<-done))
		case <-ctx.Done():
			cause = errors.New("interrupted")
			_ = syscall.Kill(group, syscall.SIGINT) // gone already is as good
			ctx = context.Background()
			time.AfterFunc(interruptLimit, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
		case <-s.Done():
			cause = errors.New("the cluster ended by itself while specs ran; see logs/cell.log")
			_ = syscall.Kill(group, syscall.SIGKILL)
			return errors.Join(cause, ignoreKill(<-done))
		}
	}
}

// ignoreKill drops what the end of a killed program says.
func ignoreKill(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
