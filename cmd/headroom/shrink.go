package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/input"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/shrink"
	"headroom/e2e/invariants"
)

// shrinkOptions are those of `headroom shrink`.
type shrinkOptions struct {
	invariant, scenario, out string
	tries, confirm, parallel int
	deadline                 time.Duration
	resume                   bool
	run                      run.Options
}

func shrinkCommand() *cobra.Command {
	var o shrinkOptions
	cmd := &cobra.Command{
		Use:   "shrink RUN-DIR",
		Short: "Make the scenario of a run that violated an invariant as small as it can be while it still does",
		Long: `Plays the scenario of RUN-DIR again and again, each time on a new cluster, with fewer steps, then with shorter pauses, then with fewer nodes and a smaller
workload, and keeps what still shows the same invariant violated; a violation that is known upstream counts. The smallest one is written as a scenario
that expects the violation, after it was played a few times more to say how often it shows.

What each trial told is kept in --run-dir: after an interruption --resume goes on there, and plays no trial again.`,
		Example: `  headroom shrink runs/20260729-101530
  headroom shrink runs/20260729-101530 --invariant no-ghost --deadline 20m --out no-ghost.yaml`,
		ValidArgsFunction: runDirectory,
		Args:              oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			return o.start(cmd, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.invariant, "invariant", "", "the invariant to show violated (default the only one that the run violated)")
	f.StringVar(&o.scenario, "scenario", "", "the scenario to shrink, by its name (default the only one that the run played)")
	f.StringVar(&o.out, "out", "", "file to write (default shrunk.yaml in --run-dir)")
	f.IntVar(&o.tries, "tries", 1, "how often a candidate is played before it is given up: more than 1 for what shows only sometimes")
	f.IntVar(&o.confirm, "confirm", 3, "how often the result is played at the end")
	f.IntVar(&o.parallel, "parallel", cells(), "clusters at the same time; one for every two processors unless given")
	f.DurationVar(&o.deadline, "deadline", 40*time.Minute, "when to be done: the smallest scenario found by then is confirmed and written")
	f.StringVar(&o.run.RunDir, "run-dir", "", "empty or new directory for the trials, one each below it (default runs/<id>)")
	f.BoolVar(&o.resume, "resume", false, "go on in the --run-dir of a shrinking that was interrupted, of the same run and with the same flags")
	originFlags(f, &o.run.From)
	f.StringVar(&o.run.Cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	complete(cmd, "invariant", invariantNames()...)
	return cmd
}

func invariantNames() (names []string) {
	for _, i := range invariants.All() {
		names = append(names, i.Name)
	}
	return names
}

func (o *shrinkOptions) check() error {
	switch {
	case o.invariant != "" && !slices.Contains(invariantNames(), o.invariant):
		return fmt.Errorf("--invariant %q: there is none of that name; there are: %s", o.invariant, strings.Join(invariantNames(), ", "))
	case o.tries < 1 || o.tries > 20:
		return fmt.Errorf("--tries %d: want 1 to 20", o.tries)
	case o.confirm < 1 || o.confirm > 100:
		return fmt.Errorf("--confirm %d: want 1 to 100", o.confirm)
	case o.parallel < 1 || o.parallel > 16:
		return fmt.Errorf("--parallel %d: want 1 to 16", o.parallel)
	case o.resume && o.run.RunDir == "":
		return errors.New("--resume: say with --run-dir where the trials are")
	case o.deadline < time.Minute:
		return fmt.Errorf("--deadline %s: want 1m or more", o.deadline)
	}
	return nil
}

func (o *shrinkOptions) start(cmd *cobra.Command, from string) error {
	r, err := judged(from)
	if err != nil {
		return err
	}
	if o.invariant, err = toShow(r, from, o.invariant); err != nil {
		return usageError{err}
	}
	whole, err := o.played(r, from)
	if err != nil {
		return usageError{err}
	}
	dir, known, err := o.trialsDir()
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(dir, "shrunk.yaml")
	}
	notes := cmd.ErrOrStderr()
	say(notes, "shrink %s of run %s to what shows %s violated  %s\n", whole.Metadata.Name, r.Run, o.invariant, dir)
	t := &trials{options: o, dir: dir, seed: r.Seed, file: whole.file, begun: time.Now(), known: known}
	res, err := shrink.Minimise(cmd.Context(), whole.Scenario, shrink.Options{
		Trial: t.try, Check: t.check, Parallel: o.parallel, Tries: o.tries, Confirm: o.confirm, Enough: t.enough,
		Tell: func(p shrink.Progress) {
			what := map[bool]string{true: "shows it", false: "does not show it"}[p.Shown]
			if p.Err != nil {
				what = "tells nothing: " + p.Err.Error()
			}
			say(notes, "%s  %s, %s: %s\n", time.Since(t.begun).Round(time.Second), report.Plural(p.Steps, "step"), p.What, what)
		},
	})
	if cmd.Context().Err() != nil {
		return cluster.Environment("shrink", errors.New("interrupted"))
	}
	var never *shrink.NotShownError
	switch {
	case errors.As(err, &never) && never.Untold == never.Played:
		return cluster.Environment("play the scenario again", err)
	case errors.As(err, &never):
		return exitError{code: report.ExitInconclusive, error: fmt.Errorf("%s: %w (remedy: raise --tries)", o.invariant, err)}
	case err != nil:
		return usageError{err}
	}
	return o.finish(cmd, r, whole, res, time.Since(t.begun))
}

// finish writes the result and says what came of it.
func (o *shrinkOptions) finish(cmd *cobra.Command, r report.Report, whole story, res shrink.Result, took time.Duration) error {
	s := *res.Scenario
	s.Metadata.Doc = fmt.Sprintf("Shows that %s is violated, %d of %d times when it was shrunk from scenario %s of run %s (seed %d).",
		o.invariant, res.Shown, res.Played, whole.Metadata.Name, r.Run, r.Seed)
	text, err := s.Encode()
	if err != nil {
		return err
	}
	if err := report.WriteFile(o.out, text); err != nil {
		return cluster.Environment("write the result", err)
	}
	out := cmd.OutOrStdout()
	say(out, "%d of %s on %d of %s: %s violated %d of %s; %s, %s\n", len(s.Steps), report.Plural(len(whole.Steps), "step"), len(s.Topology.Nodes),
		report.Plural(len(whole.Topology.Nodes), "node"), o.invariant, res.Shown, report.Plural(res.Played, "time"), report.Plural(res.Trials, "trial"), took.Round(time.Second))
	if res.Cut {
		say(out, "the time was up before everything was tried: it may get smaller with a longer --deadline\n")
	}
	say(out, "%s\n%s\n", shrink.Describe(&s), o.out)
	if res.Shown == 0 {
		return exitError{code: report.ExitInconclusive, error: errors.New("the smallest scenario showed it while shrinking and not once afterwards (remedy: raise --tries)")}
	}
	return nil
}

// judged judges the run in dir again.
func judged(dir string) (_ report.Report, err error) {
	old, err := report.OpenRun(dir, false)
	if err != nil {
		return report.Report{}, err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	return report.Judge(old.Header, old.Events(), old.Previous)
}

// shows says whether a report has a violation of an invariant, known upstream or expected as it may be.
func shows(r report.Report, invariant string) bool {
	return slices.ContainsFunc(r.Invariants, func(i report.InvariantResult) bool {
		return i.Name == invariant && slices.ContainsFunc(i.Verdicts, func(v report.Verdict) bool {
			return slices.Contains([]report.Status{report.Violated, report.KnownUpstream, report.Expected}, v.Status)
		})
	})
}

// toShow is the invariant that a run violated: the one asked for, or the only one; those that are known upstream count where there is no other.
func toShow(r report.Report, dir, asked string) (string, error) {
	var violated, known []string
	for _, i := range r.Invariants {
		switch {
		case !shows(r, i.Name):
		case i.Status == report.Violated:
			violated = append(violated, i.Name)
		default:
			known = append(known, i.Name)
		}
	}
	all := slices.Concat(violated, known)
	switch {
	case len(all) == 0:
		return "", fmt.Errorf("%s: run %s violated no invariant, so there is nothing to shrink", dir, r.Run)
	case asked != "" && !slices.Contains(all, asked):
		return "", fmt.Errorf("--invariant %s: run %s did not violate it; it violated: %s", asked, r.Run, strings.Join(all, ", "))
	case asked != "":
		return asked, nil
	case len(violated) == 1:
		return violated[0], nil
	case len(violated) == 0 && len(known) == 1:
		return known[0], nil
	}
	return "", fmt.Errorf("run %s violated several invariants: choose one with --invariant: %s", r.Run, strings.Join(all, ", "))
}

// played is the scenario that a run played, with the expectation that the invariant is violated as its only one.
func (o *shrinkOptions) played(r report.Report, dir string) (story, error) {
	files, err := filepath.Glob(filepath.Join(dir, dirScenarios, "*.yaml"))
	if err != nil {
		return story{}, err
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	file := ""
	switch {
	case len(files) == 0:
		return story{}, fmt.Errorf("%s: run %s played no scenario, and specs cannot be shrunk (remedy: name a run of headroom chaos or headroom replay)", dir, r.Run)
	case o.scenario != "" && !slices.Contains(names, o.scenario):
		return story{}, fmt.Errorf("--scenario %s: run %s played: %s", o.scenario, r.Run, strings.Join(names, ", "))
	case o.scenario != "":
		file = filepath.Join(dir, dirScenarios, o.scenario+".yaml")
	case len(files) > 1:
		return story{}, fmt.Errorf("run %s played several scenarios: choose one with --scenario: %s", r.Run, strings.Join(names, ", "))
	default:
		file = files[0]
	}
	text, err := input.Read(file, "name a run that played the scenario")
	if err != nil {
		return story{}, err
	}
	s, err := scenario.Load(file, text, catalog(file))
	if err != nil {
		return story{}, err
	}
	s.Expect = scenario.Expect{Invariants: []scenario.Verdict{{Invariant: o.invariant, Verdict: scenario.Violated}}}
	return story{file: file, Scenario: s}, nil
}

// trials plays candidates, or knows what they told before an interruption.
type trials struct {
	options *shrinkOptions
	dir     string
	seed    int64
	file    string // whose directory a driver's path counts from
	begun   time.Time

	mu     sync.Mutex
	count  int
	played time.Duration // by all of them
	known  *told
}

// enough says that what is left of the time is needed to confirm the result.
func (t *trials) enough() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 {
		return false
	}
	each := t.played / time.Duration(t.count)
	return time.Since(t.begun)+time.Duration(t.options.confirm+1)*each > t.options.deadline
}

// check reads a candidate as its file would be read.
func (t *trials) check(s *scenario.Scenario) (*scenario.Scenario, error) {
	text, err := s.Encode()
	if err != nil {
		return nil, err
	}
	return scenario.Load(t.file, text, catalog(t.file))
}

// try plays a candidate on a cluster of its own. The run of one that does not show it is not kept.
func (t *trials) try(ctx context.Context, s *scenario.Scenario) (bool, error) {
	text, err := s.Encode()
	if err != nil {
		return false, err
	}
	if shown, ok := t.known.recall(text); ok {
		return shown, nil
	}
	t.mu.Lock()
	t.count++
	one := trial{name: t.known.name(t.count), seed: t.seed, plan: text, run: t.options.run}
	t.mu.Unlock()
	one.run.RunDir = filepath.Join(t.dir, one.name)
	began := time.Now()
	e := one.play(ctx)
	t.mu.Lock()
	t.played += time.Since(began)
	t.mu.Unlock()
	switch {
	case shows(e.report, t.options.invariant):
		return true, t.known.keep(text, true)
	case ctx.Err() != nil:
		return false, ctx.Err() // it was cut short
	case e.err != nil:
		return false, e.err
	case e.code == report.ExitEnvironment:
		return false, fmt.Errorf("the environment failed; see %s", e.run.RunDir)
	}
	if err := t.known.keep(text, false); err != nil {
		return false, err
	}
	return false, os.RemoveAll(one.run.RunDir)
}
