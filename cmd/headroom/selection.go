package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/run"
	"headroom/e2e/suite"
)

// selection says which specs to run.
type selection struct {
	focus, labels string
	rerun         string   // a run directory, "" for none
	specs         []string // the ids that all of these choose
	procs         int
	keep          bool
	output        string
	// deadline is how long after begun no spec may go on; 0 is no limit.
	deadline time.Duration
	begun    time.Time
}

// choose fills in specs, and the driver of the run that is repeated unless another one was asked for. Specs on what other versions lack are left out.
func (sel *selection) choose(cmd *cobra.Command, o *run.Options) (err error) {
	if sel.specs, err = suite.Select(sel.focus, sel.labels); err != nil {
		return usageError{err}
	}
	ran, err := run.Ran(*o)
	if err != nil {
		return err
	}
	if sel.specs, err = suite.Applicable(sel.specs, ran); err != nil {
		return usageError{err}
	}
	if sel.rerun == "" {
		return nil
	}
	again, err := failedIn(sel.rerun)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("driver") {
		if err := again.known(); err != nil {
			return err
		}
		o.Driver = again.driver
	}
	sel.specs, err = again.among(sel.specs)
	return err
}

// late says whether the deadline has passed.
func (sel selection) late() bool { return sel.deadline > 0 && time.Since(sel.begun) >= sel.deadline }

// requirements are those that were chosen.
func (sel selection) requirements() []run.Requirement {
	return slices.DeleteFunc(run.Requirements(), func(r run.Requirement) bool { return !slices.Contains(sel.specs, r.ID) })
}
