package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"headroom/chaos"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/coverage"
	"headroom/e2e/framework/input"
	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/report"
)

func coverageCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "coverage [RUN-DIR...]",
		Short: "Say which faults met which components and states over some runs",
		Long: `Counts, from the histories of runs, how often each fault was injected into which kind of target, and in how many of these injections it met a state:
volumes attached, a node full, a pod that waits, a registration, another fault. A RUN-DIR may hold several runs, as that of headroom chaos --seeds does.

With --file the runs are added to those that the file has already, a run once; headroom chaos --coverage then prefers what was met least.`,
		Example: `  headroom coverage runs/*
  headroom coverage --file coverage.yaml runs/20260729-101530 && headroom chaos --coverage coverage.yaml`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && file == "" {
				return usageError{fmt.Errorf("%s: want run directories, or a file to show with --file", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := collectCoverage(file, args, func(note string) { say(cmd.ErrOrStderr(), "note: %s\n", note) })
			if err != nil {
				return err
			}
			if file != "" && len(args) > 0 {
				text, err := all.Encode()
				if err == nil {
					err = report.WriteFile(file, text)
				}
				if err != nil {
					return cluster.Environment("write the coverage", err)
				}
			}
			say(cmd.OutOrStdout(), "%s", all.Table(possible()))
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file of coverage to add the runs to; it is made where it is missing")
	return cmd
}

// collectCoverage adds the coverage of runs to that of a file, "" for none.
func collectCoverage(file string, dirs []string, note func(string)) (coverage.Coverage, error) {
	var all coverage.Coverage
	if file != "" {
		data, err := input.ReadRegular(file, "name a file of headroom coverage")
		switch {
		case errors.Is(err, fs.ErrNotExist) && len(dirs) > 0:
		case err != nil:
			return all, usageError{fmt.Errorf("--file: %w", err)}
		default:
			if all, err = coverage.Read(file, data); err != nil {
				return all, usageError{err}
			}
		}
	}
	for _, dir := range dirs {
		runs, err := runsIn(dir)
		if err != nil {
			return all, err
		}
		for _, run := range runs {
			one, err := coverageOf(run)
			if err != nil {
				return all, err
			}
			if twice := all.Add(one); len(twice) > 0 {
				note(fmt.Sprintf("%s: run %s is counted already", run, twice[0]))
			}
		}
	}
	return all, nil
}

// runsIn lists the run directories at or below dir: dir itself, or those of the trials in it.
func runsIn(dir string) ([]string, error) {
	if exists(filepath.Join(dir, report.FileHistory)) || exists(filepath.Join(dir, report.DirEvents)) {
		return []string{dir}, nil
	}
	var found []string
	for _, below := range []string{"*", filepath.Join("*", dirRun)} {
		paths, err := filepath.Glob(filepath.Join(dir, below, report.FileHistory))
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", dir, err)}
		}
		for _, p := range paths {
			found = append(found, filepath.Dir(p))
		}
	}
	if len(found) == 0 {
		return []string{dir}, nil // opening it says what is wrong
	}
	return found, nil
}

func coverageOf(dir string) (c coverage.Coverage, err error) {
	run, err := report.OpenRun(dir, false)
	if err != nil {
		return c, checkError(err)
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if c, err = coverage.Fold(run.Header.Run, run.Events()); err != nil {
		return c, usageError{fmt.Errorf("%s: %w", dir, err)}
	}
	return c, nil
}

// possible is every fault on every class of targets that plans have.
func possible() (rows []coverage.Row) {
	for _, name := range plan.Faults() {
		f, _ := chaos.Find(name) // a test holds the table to the faults
		for _, c := range f.Targets {
			rows = append(rows, coverage.Row{Fault: name, Target: c})
		}
	}
	return rows
}

// readMet reads what a planner prefers by. The file's digest is in the plan, whose text depends on the file.
func readMet(file string) (*plan.Met, error) {
	data, err := input.Read(file, "make it with headroom coverage --file")
	if err != nil {
		return nil, fmt.Errorf("--coverage: %w", err)
	}
	c, err := coverage.Read(file, data)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &plan.Met{Name: fmt.Sprintf("the coverage sha256:%x of %d runs", sum[:6], len(c.Runs)), Times: c.Times}, nil
}
