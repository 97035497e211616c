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

func runCommand() *cobra.Command {
	var o run.Options
	var sel selection
	var v versionFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the specs on a new cluster and judge what happened",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sel.procs < 1 || sel.procs > 32 {
				return usageError{fmt.Errorf("--procs %d: want 1 to 32", sel.procs)}
			}
			if sel.deadline < 0 || sel.deadline == 0 && cmd.Flags().Changed("deadline") {
				return usageError{fmt.Errorf("--deadline %s: want more than 0s, such as 10m", sel.deadline)}
			}
			if err := knownOutput(cmd, sel.output); err != nil {
				return err
			}
			if err := v.choose(&o); err != nil {
				return err
			}
			if err := sel.choose(cmd, &o); err != nil {
				return err
			}
			sel.begun = time.Now()
			if o.Provider == "kind" && !cmd.Flags().Changed("procs") {
				sel.procs = 1 // there are few nodes: specs would only wait for each other
			}
			o.Out = cmd.ErrOrStderr()
			return runSpecs(cmd, o, sel)
		},
	}
	runFlags(cmd, &o)
	v.add(cmd)
	f := cmd.Flags()
	f.StringVar(&sel.focus, "focus", "", "run only specs whose id matches the regular expression")
	f.StringVar(&sel.labels, "label-filter", "", "run only specs whose labels match, such as '!slow' or 'smoke'; 'long' ones run only where the filter names that label")
	f.IntVar(&sel.procs, "procs", 4, "parallel spec processes; 1 with --provider kind unless given")
	f.BoolVar(&sel.keep, "keep", false, "keep the cluster, and the benches of failed specs, until Ctrl-C")
	f.StringVar(&sel.rerun, "rerun-failed", "", "run only specs that failed, stayed open or saw a violation in an earlier run, given by its directory")
	f.DurationVar(&sel.deadline, "deadline", 0, "report after this time, counted from the command's start: specs not begun by then are inconclusive (default none)")
	outputFlag(cmd, &sel.output)
	completeWith(cmd, "focus", completeSpecs)
	complete(cmd, "label-filter", labels()...)
	completeWith(cmd, "rerun-failed", runDirectory)
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
	err = execute(cmd, s, sel)
	switch {
	case err != nil:
	case sel.late():
		err = s.NotBegun(sel.requirements(), fmt.Sprintf("before the deadline of %s", sel.deadline))
	default:
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
	if err := printReport(out, r, s.Dir, sel.output); err != nil {
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
	if sel.late() { // the cluster took all the time there was
		return nil
	}
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
	var deadline <-chan time.Time // for ever
	if sel.deadline > 0 {
		deadline = time.After(time.Until(sel.begun.Add(sel.deadline)))
	}
	err = supervise(ctx, s, ginkgo, deadline)
	stop()
	return errors.Join(err, <-followed)
}

// supervise waits for the spec processes. They are interrupted with the run and at the deadline, and killed when the cluster is gone or one of them
// died: the others would go on beside what it left, and the run could not be conclusive any more.
func supervise(ctx context.Context, s *run.Session, ginkgo *exec.Cmd, deadline <-chan time.Time) error {
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
			ctx = context.Background()
			interrupt(group)
		case <-deadline:
			interrupt(group)
		case <-s.Done():
			cause = errors.New("the cluster ended by itself while specs ran; see logs/cell.log")
			_ = syscall.Kill(group, syscall.SIGKILL)
			return errors.Join(cause, ignoreKill(<-done))
		}
	}
}

// interrupt lets the spec processes put their benches away, for a while.
func interrupt(group int) {
	_ = syscall.Kill(group, syscall.SIGINT) // gone already is as good
	time.AfterFunc(interruptLimit, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
}

// ignoreKill drops what the end of a killed program says.
func ignoreKill(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
