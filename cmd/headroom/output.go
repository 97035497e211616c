package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/report"
)

// outputs are the forms in which a report is printed.
var outputs = []string{"table", "wide", "json", "yaml"}

// outputFlag adds --output.
func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", outputs[0], "what to print: "+strings.Join(outputs, ", ")+"; wide is the table with its rows not cut")
	complete(cmd, "output", outputs...)
}

// knownOutput refuses what is no form.
func knownOutput(cmd *cobra.Command, output string) error {
	if !slices.Contains(outputs, output) {
		return usageError{fmt.Errorf("%s: --output: want table, wide, json or yaml, got %q", cmd.CommandPath(), output)}
	}
	return nil
}

// printReport prints the report of the run in dir.
func printReport(out io.Writer, r report.Report, dir, output string) error {
	switch output {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "yaml":
		text, err := r.YAML()
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	o := report.Options{Colour: report.Colour(out), Width: report.Width(out), Dir: dir}
	if output == "wide" {
		o.Width = report.Whole
	}
	if path := filepath.Join(dir, report.DirEvidence); exists(path) {
		o.Evidence = path
	}
	if err := report.Table(out, r, o); err != nil || r.Upgrade == nil {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return report.UpgradePage(out, r)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
