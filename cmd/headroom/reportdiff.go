package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/drivercheck"
	"headroom/e2e/framework/input"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/strict"
)

func reportDiff() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what changed from one report to another: a new release of the driver, another version of Kubernetes",
		Long: `Compares two reports of one kind, from A to B: run directories or their report.yaml, or what headroom driver check printed with -o yaml or json.

Exit code 0: nothing came to less than before. 1: something did, or a row that is new is violated or open. 2: A or B is no report.`,
		Example: `  headroom report diff runs/20260729-101530-1a2b runs/20260801-090000-3c4d
  headroom report diff old-driver.yaml new-driver.yaml -o json | jq .worse`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(2)(cmd, args); err != nil {
				return usageError{fmt.Errorf("%s: %w; name two reports", cmd.CommandPath(), err)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := knownOutput(cmd, output); err != nil {
				return err
			}
			from, kind, err := readComparable(args[0])
			if err != nil {
				return usageError{err}
			}
			to, other, err := readComparable(args[1])
			if err != nil {
				return usageError{err}
			}
			if kind != other {
				return usageError{fmt.Errorf("%s is a %s and %s a %s: want two of one kind", args[0], kind, args[1], other)}
			}
			d := report.Diff(from, to)
			if err := printDifference(cmd, d, output); err != nil {
				return cluster.Environment("print the difference", err)
			}
			if len(d.Worse) > 0 {
				return exitError{code: report.ExitViolated}
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func printDifference(cmd *cobra.Command, d report.Difference, output string) error {
	out := cmd.OutOrStdout()
	switch output {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(d)
	case "yaml":
		enc := yaml.NewEncoder(out)
		enc.SetIndent(2)
		return errors.Join(enc.Encode(d), enc.Close())
	}
	return d.Print(out)
}

// readComparable reads a report of any kind, given by its file or its run directory.
func readComparable(path string) (report.Comparable, string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, report.FileReport)
	}
	b, err := input.Read(path, "name a run directory or the file of a report")
	if err != nil {
		return report.Comparable{}, "", fmt.Errorf("read report: %w", err)
	}
	var doc yaml.Node
	var head struct {
		Kind string `yaml:"kind"`
	}
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return report.Comparable{}, "", fmt.Errorf("read report: %w", strict.Misread(path, b, err))
	}
	if err := doc.Decode(&head); err != nil && !doc.IsZero() {
		return report.Comparable{}, "", fmt.Errorf("read report %s: %w", path, err)
	}
	switch head.Kind {
	case drivercheck.Kind:
		r, err := drivercheck.Decode(path, b)
		return r.Comparable(), head.Kind, err
	case report.Kind:
		r, err := report.Decode(path, b)
		return r.Comparable(), head.Kind, err
	}
	got := fmt.Sprintf("kind %q", head.Kind)
	if doc.IsZero() {
		got = "an empty file"
	}
	return report.Comparable{}, "", fmt.Errorf("read report %s: want a %s of headroom run or a %s of headroom driver check -o yaml or json, got %s", path, report.Kind, drivercheck.Kind, got)
}
