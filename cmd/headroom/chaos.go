package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/scenario"
)

// chaosOptions are those of `headroom chaos`.
type chaosOptions struct {
	plan.Options
	run run.Options
	// file is a plan to play in place of one made of a seed.
	file, coverage string
	print          bool
	seeds          int
	untilFailure   bool
	parallel       int
}

func chaosCommand() *cobra.Command {
	var o chaosOptions
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Play a schedule of faults that a seed stands for, over a workload, and judge what happened",
		Long: `Makes a plan of a seed and plays it: pods come and go on two nodes while faults overlap, each is healed, and a quiet end shows whether all recovers.
A plan is a scenario: --print-plan prints it, headroom replay plays it, headroom shrink makes a failing one small. The same seed, duration and faults
give the same plan on any machine.

With --seeds each plan plays on a cluster of its own, in a directory of its own, and a table at the end says what became of each.`,
		Example: `  headroom chaos --seed 7 --duration 5m --faults quota,network
  headroom chaos --seed 7 --print-plan > plan.yaml
  headroom chaos --seeds 100 --until-failure`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return usageError{err}
			}
			o.run.Out = cmd.ErrOrStderr()
			return o.start(cmd)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&o.Seed, "seed", 0, "seed of the plan, and the first of several (default a new one, printed)")
	f.DurationVar(&o.Duration, "duration", 5*time.Minute, fmt.Sprintf("how long a plan plays, its quiet end included: %s to %s", plan.Shortest, plan.Longest))
	f.StringSliceVar(&o.Faults, "faults", nil, "groups of faults ("+strings.Join(plan.Groups(), ", ")+") or faults by name, such as quota-drop or "+
		"quota-outage:throttle; default all that leave no gap in the record")
	f.IntVar(&o.Nodes, "nodes", 0, "how many nodes there are (default 2)")
	f.DurationVar(&o.Quiet, "quiet", 0, "how long the quiet end is, where it is to be longer than what recovery is allowed")
	f.StringVar(&o.Driver, "driver", defaultDriver, "driver under test: a name from 'headroom drivers', or a path to a .yaml file")
	f.StringVar(&o.file, "plan", "", "play this plan instead of making one")
	f.BoolVar(&o.print, "print-plan", false, "only print the plan")
	f.IntVar(&o.seeds, "seeds", 1, "how many plans to play, of as many seeds from --seed on")
	f.BoolVar(&o.untilFailure, "until-failure", false, "with --seeds: stop at the first seed with a violation, or with a failure of the environment")
	f.IntVar(&o.parallel, "parallel", cells(), "with --seeds: clusters at the same time; one for every two processors unless given")
	f.StringVar(&o.coverage, "coverage", "", "prefer what this file of headroom coverage has met least")
	f.StringVar(&o.run.RunDir, "run-dir", "", "empty or new directory for events, logs and reports (default runs/<id>); several seeds get one each below it")
	f.IntVar(&o.run.Port, "port", 0, "port of the API server on 127.0.0.1 (default any)")
	originFlags(f, &o.run.From)
	f.StringVar(&o.run.Cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	completeWith(cmd, "driver", completeDrivers)
	complete(cmd, "faults", append(plan.Groups(), plan.Faults()...)...)
	return cmd
}

// check refuses what does not go together, before anything is read.
func (o *chaosOptions) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if o.file != "" {
		for _, flag := range []string{"seed", "duration", "faults", "nodes", "quiet", "driver", "seeds", "until-failure", "parallel", "coverage", "print-plan"} {
			if given(flag) {
				return fmt.Errorf("--%s: the plan of --plan is made already; leave out one of the two", flag)
			}
		}
		return nil
	}
	switch {
	case given("seed") && o.Seed < 1:
		return fmt.Errorf("--seed %d: want 1 or more", o.Seed)
	case o.seeds < 1 || o.seeds > 10000:
		return fmt.Errorf("--seeds %d: want 1 to 10000", o.seeds)
	case o.parallel < 1 || o.parallel > 16:
		return fmt.Errorf("--parallel %d: want 1 to 16", o.parallel)
	case o.print && o.seeds > 1:
		return errors.New("--print-plan prints one plan: leave --seeds out")
	case o.untilFailure && !given("seeds"):
		return errors.New("--until-failure: say with --seeds how many to try at most")
	case o.seeds > 1 && o.parallel > 1 && o.run.Port != 0:
		return fmt.Errorf("--port %d: %d clusters at the same time cannot share it; leave it out, or give --parallel 1", o.run.Port, o.parallel)
	}
	if _, err := drivers.Load(o.Driver); err != nil {
		return fmt.Errorf("--driver: %w", err)
	}
	if isDriverFile(o.Driver) { // a plan may be played from anywhere
		path, err := filepath.Abs(o.Driver)
		if err != nil {
			return fmt.Errorf("--driver: %w", err)
		}
		o.Driver = path
	}
	if o.coverage != "" {
		met, err := readMet(o.coverage)
		if err != nil {
			return err
		}
		o.Met = met
	}
	return nil
}

func (o *chaosOptions) start(cmd *cobra.Command) error {
	if o.file != "" {
		stories, err := loadStories([]string{o.file})
		if err != nil {
			return usageError{err}
		}
		return replay(cmd, o.run, stories, 1, nil)
	}
	if o.Seed == 0 {
		o.Seed = newSeed()
	}
	first, err := planned(o.Options)
	if err != nil {
		return usageError{err}
	}
	switch {
	case o.print:
		_, err := cmd.OutOrStdout().Write(first.text)
		return cluster.Environment("print the plan", err)
	case o.seeds > 1:
		return o.several(cmd)
	}
	o.run.Seed = o.Seed
	return replay(cmd, o.run, []story{first.story}, 1, nil)
}

// made is a plan with its file's text.
type made struct {
	story
	text []byte
}

// planned makes the plan of a seed, and reads it as any scenario is read.
func planned(o plan.Options) (made, error) {
	s, err := plan.New(o)
	if err != nil {
		return made{}, err
	}
	text, err := s.Encode()
	if err != nil {
		return made{}, err
	}
	name := s.Metadata.Name + ".yaml"
	loaded, err := scenario.Load(name, text, catalog(name))
	if err != nil {
		return made{}, fmt.Errorf("the plan of seed %d cannot be played: %w", o.Seed, err)
	}
	return made{story{file: name, Scenario: loaded}, text}, nil
}

// several plays the plans of several seeds, each on a cluster of its own in a child process.
func (o *chaosOptions) several(cmd *cobra.Command) error {
	dir, err := newRunDir(o.run.RunDir)
	if err != nil {
		return err
	}
	out := cmd.ErrOrStderr()
	say(out, "seeds %d to %d, %d at a time  %s\n", o.Seed, o.Seed+int64(o.seeds)-1, o.parallel, dir)
	var trials []trial
	for i := range o.seeds {
		of := o.Options
		of.Seed += int64(i)
		p, err := planned(of)
		if err != nil {
			return usageError{err}
		}
		t := trial{name: formatSeed(of.Seed), seed: of.Seed, plan: p.text, run: o.run}
		t.run.RunDir = filepath.Join(dir, t.name)
		trials = append(trials, t)
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	ends := playAll(ctx, trials, o.parallel, func(e ended) {
		say(out, "%s\n", e)
		if o.untilFailure && (e.code == report.ExitViolated || e.code == report.ExitEnvironment) {
			stop()
		}
	})
	var text bytes.Buffer
	worst := report.ExitHeld
	w := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	say(w, "SEED\tEXIT\tVIOLATED\tKNOWN UPSTREAM\tDIRECTORY\n")
	counts := map[int]int{}
	for _, e := range ends {
		if e.skipped {
			continue
		}
		counts[e.code]++
		worst = report.WorstExit(worst, e.code)
		say(w, "%s\t%d\t%s\t%s\t%s\n", e.name, e.code, cmp.Or(strings.Join(e.violated(), " "), "-"), cmp.Or(strings.Join(e.known(), " "), "-"), e.run.RunDir)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	say(&text, "\n%d of %s played: %d held, %d violated, %d inconclusive, %d with a failure of the environment\n", len(ends)-skipped(ends), report.Plural(o.seeds, "seed"),
		counts[report.ExitHeld], counts[report.ExitViolated], counts[report.ExitInconclusive], counts[report.ExitEnvironment])
	if _, err := cmd.OutOrStdout().Write(text.Bytes()); err != nil {
		return cluster.Environment("print the table", err)
	}
	if cmd.Context().Err() != nil {
		worst = report.WorstExit(worst, report.ExitEnvironment)
	}
	if worst != report.ExitHeld {
		return exitError{code: worst}
	}
	return nil
}

// newRunDir makes the directory that holds those of several runs; "" is a new one.
func newRunDir(dir string) (string, error) {
	if dir == "" {
		dir = filepath.Join("runs", time.Now().UTC().Format("20060102-150405")+"-"+strconv.FormatInt(newSeed(), 36))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", usageError{err}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", usageError{fmt.Errorf("--run-dir: %w (remedy: give an empty or a new directory)", err)}
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return "", usageError{fmt.Errorf("--run-dir: %w (remedy: give an empty or a new directory)", err)}
	case len(entries) > 0:
		return "", usageError{fmt.Errorf("--run-dir %s is not empty: it holds %q (remedy: give an empty or a new directory)", dir, entries[0].Name())}
	}
	return dir, nil
}
