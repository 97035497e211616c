package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/input"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/scenario"
)

// defaultDriver is the driver of a scenario that names none.
const defaultDriver = "steady"

// story is a scenario with the file that it came from.
type story struct {
	file string
	*scenario.Scenario
	// of is the scenario that this one is a copy of; nil where it is none.
	of *scenario.Scenario
}

func replayCommand() *cobra.Command {
	var o run.Options
	var procs, times int
	var check bool
	var results string
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Play scenarios and judge what happened by what they expect",
		Long: `Plays scenario files: each says which cluster it needs, what is done to it step by step, and what must be seen. A scenario that shows a known
defect expects its violation, and fails on the day that the defect is gone.

All files are read first, and nothing is started while one of them has a mistake. Scenarios with the same components, gates and driver share one
cluster, on nodes of their own; those that stop shared components play alone.

With --times each is played so often, its copies on nodes of their own beside each other, and a table says how often it showed all that it expects.`,
		Example: `  headroom replay fixtures/scenarios/*.yaml
  headroom replay --check my-incident.yaml
  headroom replay --times 10 --results results.yaml my-incident.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("%s: want at least one scenario file, such as fixtures/scenarios/slow-stale-answer.yaml", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if procs < 1 || procs > 16 {
				return usageError{fmt.Errorf("--procs %d: want 1 to 16", procs)}
			}
			stories, err := loadStories(files)
			if err != nil {
				return usageError{err}
			}
			if check {
				say(cmd.OutOrStdout(), "nothing wrong with %s\n", report.Plural(len(stories), "scenario"))
				return nil
			}
			o.Out = cmd.ErrOrStderr()
			if times == 1 && results == "" {
				return replay(cmd, o, stories, procs, nil)
			}
			kept, err := readResults(results)
			if err != nil {
				return usageError{err}
			}
			if stories, err = copies(stories, times); err != nil {
				return usageError{err}
			}
			return kept.replay(cmd, o, stories, procs)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.RunDir, "run-dir", "", "empty or new directory for events, logs and reports (default runs/<id>); several clusters get one each below it")
	f.Int64Var(&o.Seed, "seed", 0, "seed of all random choices (default a new one, printed)")
	f.IntVar(&o.Port, "port", 0, "port of the API server on 127.0.0.1 (default any)")
	originFlags(f, &o.From)
	f.StringVar(&o.Cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	f.IntVar(&procs, "procs", 4, "scenarios that play at the same time")
	f.IntVar(&times, "times", 1, "how often to play each scenario: 1 to 100")
	f.StringVar(&results, "results", "", "file of how often scenarios showed what they expect, to add these plays to; it is made where it is missing")
	f.BoolVar(&check, "check", false, "only read the files and say what is wrong with them")
	return cmd
}

// loadStories reads all files. The error lists everything that is wrong with any of them.
func loadStories(files []string) ([]story, error) {
	var stories []story
	var errs []error
	named := map[string]string{}
	for _, file := range files {
		data, err := input.Read(file, "name a file that can be read")
		if err != nil {
			errs = append(errs, fmt.Errorf("scenario: %w", err))
			continue
		}
		s, err := scenario.Load(file, data, catalog(file))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if first, again := named[s.Metadata.Name]; again {
			errs = append(errs, fmt.Errorf("%s: metadata.name: %q is the name of %s too (remedy: rename one of them)", file, s.Metadata.Name, first))
			continue
		}
		named[s.Metadata.Name] = file
		stories = append(stories, story{file: file, Scenario: s})
	}
	return stories, errors.Join(errs...)
}

// catalog is what the scenario in file may name.
func catalog(file string) scenario.Catalog {
	c := run.Catalog()
	c.Driver = func(name string) error {
		_, err := drivers.Load(driverOf(file, name))
		return err
	}
	c.Figures = func(name string, f scenario.Figures) error {
		d, err := drivers.Load(driverOf(file, cmp.Or(name, defaultDriver)))
		if err == nil {
			_, err = run.Override(d.Figures, f)
		}
		return err
	}
	return c
}

// driverOf is the driver that a scenario's file names: a path counts from the file.
func driverOf(file, name string) string {
	if isDriverFile(name) && !filepath.IsAbs(name) {
		return filepath.Join(filepath.Dir(file), name)
	}
	return name
}

// isDriverFile says whether a driver is named by its file.
func isDriverFile(name string) bool {
	return strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// dirScenarios is where a run directory holds the scenarios that were played, one file each, by name.
const dirScenarios = "scenarios"

// keep writes the scenario into the run directory, whatever becomes of its file: with it the run can be repeated, and shrunk.
func (s story) keep(dir string) error {
	kept := *s.Scenario
	if isDriverFile(kept.Driver.Name) {
		path, err := filepath.Abs(driverOf(s.file, kept.Driver.Name))
		if err != nil {
			return err
		}
		kept.Driver.Name = path
	}
	text, err := kept.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, dirScenarios), 0o755); err != nil {
		return err
	}
	return report.WriteFile(filepath.Join(dir, dirScenarios, kept.Metadata.Name+".yaml"), text)
}

// options are those of the cluster that a scenario needs.
func (s story) options(o run.Options) run.Options {
	o.Kubernetes, o.Components, o.Gates = s.Topology.Release(), s.Topology.Components, s.Topology.Gates
	o.AllowUnsupportedSkew = s.Topology.AllowUnsupportedSkew
	o.Driver = driverOf(s.file, cmp.Or(s.Driver.Name, defaultDriver))
	if s.Driver.Figures != nil {
		o.Figures = *s.Driver.Figures
	}
	return o
}

// groups puts together what can share a cluster, in the order of the files.
func groups(stories []story) ([][]story, error) {
	var all [][]story
	at := map[string]int{}
	for _, s := range stories {
		o := s.options(run.Options{})
		own := ""
		if s.Blinds() {
			own = s.Metadata.Name // its gaps must not be the others'
		}
		key, err := yaml.Marshal([]any{o.Kubernetes, o.Components, o.Gates, o.Driver, o.Figures, own})
		if err != nil {
			return nil, fmt.Errorf("compare scenario %q with the others: %w", s.Metadata.Name, err)
		}
		i, known := at[string(key)]
		if !known {
			i, all = len(all), append(all, nil)
			at[string(key)] = i
		}
		all[i] = append(all[i], s)
	}
	return all, nil
}

// replay plays each group on a cluster of its own, one after the other, tells what became of each, and ends with the worst of their exit codes.
func replay(cmd *cobra.Command, o run.Options, stories []story, procs int, tell func(dir string, r report.Report, group []story) error) error {
	all, err := groups(stories)
	if err != nil {
		return err
	}
	worst := report.ExitHeld
	for i, group := range all {
		g := group[0].options(o)
		if len(all) > 1 && o.RunDir != "" {
			g.RunDir = filepath.Join(o.RunDir, strconv.Itoa(i+1))
		}
		dir, r, err := replayGroup(cmd, g, group, procs)
		if err != nil {
			return err
		}
		worst = report.WorstExit(worst, report.ExitCode(r))
		if tell == nil {
			continue
		}
		if err := tell(dir, r, group); err != nil {
			return err
		}
	}
	if worst != report.ExitHeld {
		return exitError{code: worst}
	}
	return nil
}

func replayGroup(cmd *cobra.Command, o run.Options, group []story, procs int) (dir string, r report.Report, err error) {
	ctx := cmd.Context()
	s, err := run.Start(ctx, o)
	if err != nil {
		return "", r, err
	}
	release, err := register(s.Dir)
	if err != nil {
		return "", r, errors.Join(err, s.End(context.WithoutCancel(ctx)))
	}
	defer release()
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	followed := make(chan error, 1)
	go func() { followed <- report.Follow(follow, filepath.Join(s.Dir, "events"), cmd.ErrOrStderr()) }()
	s.Phase("faults")
	playing, end := context.WithCancel(ctx)
	go func() { // nothing that a scenario waits for comes once the cluster is gone
		select {
		case <-s.Done():
			end()
		case <-playing.Done():
		}
	}()
	play(playing, cmd, s, group, procs)
	end()
	if ctx.Err() != nil {
		s.Problem("play the scenarios", errors.New("interrupted"))
	}
	stop()
	s.Problem("show the progress", <-followed)
	if r, err = s.Finish(ctx); err != nil {
		return "", r, err
	}
	return s.Dir, r, cluster.Environment("print the report", printReport(cmd.OutOrStdout(), r, s.Dir, "table"))
}

// play plays those scenarios together that do not touch what they share, then the others one by one.
func play(ctx context.Context, cmd *cobra.Command, s *run.Session, group []story, procs int) {
	one := func(st story) {
		if ctx.Err() != nil {
			return
		}
		s.Problem("keep the scenario", st.keep(s.Dir))
		if err := s.Play(ctx, st.file, st.Scenario); err != nil {
			say(cmd.ErrOrStderr(), "the bench of %s is not quite gone: %v\n", st.Metadata.Name, err)
		}
	}
	var together sync.WaitGroup
	slots := make(chan struct{}, procs)
	var alone []story
	for _, st := range group {
		if st.Shared() {
			alone = append(alone, st)
			continue
		}
		together.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			one(st)
		})
	}
	together.Wait()
	for _, st := range alone {
		one(st)
	}
}
