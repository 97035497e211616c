package main

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/report"
	"headroom/e2e/framework/report/timeline"
)

func reportCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "report RUN-DIR",
		Short: "Draw a run as one HTML page: what each node allowed, answered, showed and held over time, beside the verdicts",
		Long: `Judges the history in RUN-DIR again, as headroom check does, and writes a page that shows it over time. The page is one file that loads nothing:
it can be mailed or kept as a CI artefact. A click on a verdict shows the events that prove it and jumps to them.

The exit code says whether the page was written, not what it shows: 0, or 2 when RUN-DIR is no run, or 3 when the page cannot be written.`,
		Example:           `  headroom report runs/20260729-101530 --html /tmp/run.html`,
		ValidArgsFunction: runDirectory,
		Args:              oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if path == "" {
				path = filepath.Join(args[0], report.FileTimeline)
			}
			if err := drawRun(args[0], path); err != nil {
				return checkError(err)
			}
			say(cmd.OutOrStdout(), "%s\n", path)
			return nil
		},
	}
	cmd.AddCommand(reportDiff())
	cmd.Flags().StringVar(&path, "html", "", "file to write (default RUN-DIR/"+report.FileTimeline+")")
	return cmd
}

// drawRun writes the page of the run in dir to path, whole or not at all.
func drawRun(dir, path string) (err error) {
	run, err := report.OpenRun(dir, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	r, err := report.Judge(run.Header, run.Events(), run.Previous)
	if err != nil {
		return err
	}
	text, err := timeline.Build(run.Header, run.Events(), r).HTML()
	if err != nil {
		return err
	}
	return report.WriteFile(path, text)
}
