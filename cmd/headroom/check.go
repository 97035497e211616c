package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/report"
)

func checkCommand() *cobra.Command {
	var output string
	var write bool
	cmd := &cobra.Command{
		Use:   "check RUN-DIR",
		Short: "Judge a run again from its history, on any machine",
		Long: `Judges the history in RUN-DIR again and prints the report. It needs no cluster and reads nothing else, so that it repeats what CI found.

A run directory holds
  header.json    seed, provider, versions and parameters of the run
  events/        what each writer recorded, one file per writer
  history.jsonl  the events merged behind the header; where it is missing, check merges events/ first
  report.yaml    the report, for programs; check takes over the environment problems in it, which no history tells
  junit.xml      the report, for CI systems
  evidence/      for each violation, the events around it and part of the logs
  scenarios/     the scenarios that were played, one file each
  logs/          what the components wrote
  kubeconfig     only while the run is going on

Exit codes
  0  everything that was judged held
  1  a requirement or an invariant is violated
  2  RUN-DIR is no run: it does not exist, its header or schema cannot be read, or it mixes two runs
  3  environment error: the run had one, or the report cannot be written
  4  inconclusive: nothing was judged, or the history does not tell, or it is damaged and what is left proves no violation
A violation outranks 3 and 4; 3 outranks 4.`,
		Example: `  headroom check runs/20260729-101530
  headroom check runs/20260729-101530 -o json | jq '.invariants[] | select(.status != "Held")'
  headroom check runs/20260729-101530 --write`,
		ValidArgsFunction: runDirectory,
		Args:              oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := knownOutput(cmd, output); err != nil {
				return err
			}
			return checkRun(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], output, write)
		},
	}
	outputFlag(cmd, &output)
	cmd.Flags().BoolVar(&write, "write", false, "write report.yaml, junit.xml and evidence/ to RUN-DIR, and history.jsonl where it had to be merged")
	return cmd
}

// oneRun wants one run directory as the argument.
func oneRun(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return usageError{fmt.Errorf("%s: %w; name the directory that the run printed at its end", cmd.CommandPath(), err)}
	}
	return nil
}

// checkRun judges the run in dir and prints the report to out and what else there is to say to notes. The error is nil when everything held.
func checkRun(out, notes io.Writer, dir, output string, write bool) (err error) {
	run, err := report.OpenRun(dir, write)
	if err != nil {
		return checkError(err)
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	r, err := run.Judge(run.Previous)
	if err != nil {
		return checkError(err)
	}
	for _, note := range run.Notes {
		if _, err := fmt.Fprintln(notes, "note: "+note); err != nil {
			return checkError(err)
		}
	}
	if err := printReport(out, r, dir, output); err != nil {
		return checkError(err)
	}
	code := report.ExitCode(r)
	if write {
		// A violation that cannot be written is still a violation.
		if err := errors.Join(report.Write(dir, r), report.WriteEvidence(dir, r, run.Events())); err != nil && code != report.ExitViolated {
			return checkError(err)
		} else if err != nil {
			return exitError{code: code, error: errors.Join(checkVerdict(r), err)}
		}
	}
	if code != report.ExitHeld {
		return exitError{code: code, error: checkVerdict(r)}
	}
	return nil
}

// checkVerdict says in one line why the exit code is not 0.
func checkVerdict(r report.Report) error {
	s := r.Summarise()
	switch s.ExitCode {
	case report.ExitViolated:
		return fmt.Errorf("run %s: %d violated", r.Run, s.Violated)
	case report.ExitEnvironment:
		return fmt.Errorf("run %s: environment error: %s: %s", r.Run, r.Environment[0].Op, r.Environment[0].Error)
	}
	if len(r.Doubts) > 0 {
		return fmt.Errorf("run %s: inconclusive: %s", r.Run, r.Doubts[0])
	}
	return fmt.Errorf("run %s: %d inconclusive", r.Run, s.Inconclusive)
}

// checkError gives an error its exit code: bad input is 2, all else is the machine's fault.
func checkError(err error) error {
	var input *cluster.InputError
	if errors.As(err, &input) {
		return usageError{err}
	}
	return exitError{code: report.ExitEnvironment, error: err}
}
