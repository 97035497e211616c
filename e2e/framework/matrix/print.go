package matrix

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"headroom/e2e/framework/report"
	"headroom/e2e/framework/versions"
)

// List prints rows for people.
func List(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "API SERVER\tMANAGER, SCHEDULER\tKUBELET\tATTACHER\tWITHOUT")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\n", strings.Join(columns(r), "\t"), r.missing())
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the matrix: %w", err)
	}
	return nil
}

// columns are the versions of a row.
func columns(r Row) []string {
	control := r.Versions["kube-controller-manager"].String()
	if other := r.Versions["kube-scheduler"]; other != r.Versions["kube-controller-manager"] {
		control += ", " + other.String()
	}
	attacher := r.Versions[versions.AttacherComponent].String()
	if on, set := r.Gates[versions.AttacherComponent][versions.MutableCSINodeAllocatableCount]; set {
		attacher += map[bool]string{true: " gate on", false: " gate off"}[on]
	}
	return []string{r.Versions["kube-apiserver"].String(), control, r.Versions["kubelet"].String(), attacher}
}

// missing is the short form of what does not work.
func (r Row) missing() string {
	switch {
	case r.Silent != "":
		return r.Silent
	case len(r.Without) == 0:
		return "-"
	}
	text := r.Without[0]
	if n := len(r.Without) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

// Table prints results for people: a line for each, then what did not hold and where to look.
func Table(out io.Writer, all []Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "API SERVER\tMANAGER, SCHEDULER\tKUBELET\tATTACHER\tVERDICT\tHELD\tTOOK\tWITHOUT")
	counts := map[string]int{}
	var took time.Duration
	for _, r := range all {
		word := strings.ToLower(string(r.Status))
		counts[word]++
		took += time.Duration(r.Elapsed)
		fmt.Fprintf(w, "%s\t%s\t%d\t%.0fs\t%s\n", strings.Join(columns(r.Row), "\t"), word, r.Summary.Held, time.Duration(r.Elapsed).Seconds(), r.missing())
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the matrix: %w", err)
	}
	for _, r := range all {
		if len(r.Why) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n  run with: headroom run %s\n  recorded in: %s\n", r.Name, strings.Join(r.Args, " "), r.Dir)
		for _, why := range r.Why {
			fmt.Fprintf(out, "  %s\n", why)
		}
	}
	_, err := fmt.Fprintf(out, "\n%s: %d held, %d violated, %d inconclusive, in %s\n", report.Plural(len(all), "combination"), counts["held"], counts["violated"], counts["inconclusive"],
		took.Round(time.Second))
	return err
}

// JSON prints rows or results for programs.
func JSON(out io.Writer, all any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}

// GitHub prints rows as the value of a GitHub Actions job's strategy.matrix, on one line: each job gets matrix.name, and matrix.args for `headroom run`.
func GitHub(out io.Writer, rows []Row) error {
	type job struct {
		Name string `json:"name"`
		Args string `json:"args"`
	}
	jobs := make([]job, 0, len(rows))
	for _, r := range rows {
		jobs = append(jobs, job{Name: r.Name, Args: strings.Join(r.Args, " ")})
	}
	return json.NewEncoder(out).Encode(map[string]any{"include": jobs})
}

// JUnit is the text of one junit.xml for all results: the suites of each row's run, under the row's name.
func JUnit(all []Result) ([]byte, error) {
	parts := make([]report.JUnitPart, 0, len(all))
	for _, r := range all {
		parts = append(parts, report.JUnitPart{Name: r.Name, Report: r.report, Problem: r.problem, Elapsed: r.Elapsed})
	}
	return report.JUnit(parts)
}
