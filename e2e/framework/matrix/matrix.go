// Package matrix runs many combinations of component versions, one after the other, and puts their results together.
//
// Contract: which combinations there are is package versions' to say; each is a row. Run hands each row to a function that makes a run of it, reads the
// report that the run left, and goes on whatever came of it: the rows after one that failed are run too. A row without a report that can be read is an
// environment failure, never a pass.
//
// It starts no cluster and judges nothing.
package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headroom/e2e/framework/report"
	"headroom/e2e/framework/versions"
)

// Row is a combination with what follows from it.
type Row struct {
	// Name is the combination's id, and the name of its run's directory.
	Name string `json:"name"`
	// Versions are the components' versions.
	Versions map[string]versions.Version `json:"versions"`
	// Gates are the feature gates that are set otherwise than by default.
	Gates map[string]map[string]bool `json:"gates,omitempty"`
	// Args choose the combination on the command line of `headroom run`.
	Args []string `json:"args"`
	// Without lists what of the feature does not work in this combination, and Silent is set when nothing says so.
	Without []string `json:"without,omitempty"`
	Silent  string   `json:"silent,omitempty"`

	combination versions.Combination
}

// Rows are the rows of combinations.
func Rows(table versions.Table, all []versions.Combination) []Row {
	rows := make([]Row, 0, len(all))
	for _, c := range all {
		r := Row{Name: c.String(), Versions: c.Versions(), Gates: c.Gates(), Args: args(table, c), Silent: table.Silent(c.Ran()), combination: c}
		for _, a := range table.Rules(c.Ran()) {
			if !a.Works {
				r.Without = append(r.Without, a.Text())
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// Ran is the row as the header of a run's history has it.
func (r Row) Ran() map[string]string { return r.combination.Ran() }

// Components are the row's versions that are not those of its API server's release.
func (r Row) Components(table versions.Table) map[string]versions.Version {
	return others(table, r.combination)
}

func others(table versions.Table, c versions.Combination) map[string]versions.Version {
	of := c.Versions()
	release, err := table.Lookup(c.APIServer)
	if err != nil {
		return of
	}
	for component, v := range release.Of().Versions() {
		if of[component] == v {
			delete(of, component)
		}
	}
	return of
}

func args(table versions.Table, c versions.Combination) []string {
	all := []string{"--kubernetes", c.APIServer.String()}
	other := others(table, c)
	for _, component := range versions.Versioned {
		if v, ok := other[component]; ok {
			all = append(all, "--component", component+"="+v.String())
		}
	}
	if c.AttacherGate != "" {
		all = append(all, "--gate", versions.AttacherComponent+"/"+versions.MutableCSINodeAllocatableCount+"="+c.AttacherGate)
	}
	return all
}

// Result is what came of a row.
type Result struct {
	Row
	// Status is report.Held, report.Violated or report.Inconclusive; an environment failure is inconclusive, with ExitCode 3.
	Status   report.Status   `json:"status"`
	ExitCode int             `json:"exitCode"`
	Summary  report.Summary  `json:"summary"`
	Elapsed  report.Duration `json:"elapsed"`
	// Dir is the run's directory.
	Dir string `json:"dir"`
	// Why are the first rows of the run's report that did not hold, or why there is no report.
	Why []string `json:"why,omitempty"`

	// report is what the run left, problem what is wrong with the run itself.
	report  *report.Report
	problem string
}

// maxWhy is how many reasons of a row are kept: the run's own report has them all.
const maxWhy = 5

// Start makes a run of a row in a directory that does not exist yet and returns its exit code. An error is a failure to run it.
type Start func(ctx context.Context, r Row, dir string) (exitCode int, err error)

// Run runs the rows in order, each below dir, and tells progress of each. Rows that ctx's end kept from running are inconclusive.
func Run(ctx context.Context, rows []Row, dir string, start Start, progress io.Writer) []Result {
	results := make([]Result, 0, len(rows))
	for i, r := range rows {
		at := filepath.Join(dir, r.Name)
		result := Result{Row: r, Dir: at}
		switch {
		case ctx.Err() != nil:
			result.Status, result.ExitCode, result.problem = report.Inconclusive, report.ExitInconclusive, "not run: interrupted"
			result.Why = []string{result.problem}
		default:
			began := time.Now()
			code, err := start(ctx, r, at)
			result.Elapsed = report.Duration(time.Since(began).Round(time.Millisecond))
			result.judge(code, err)
		}
		results = append(results, result)
		_, _ = fmt.Fprintf(progress, "[%d/%d] %s  %s\n", i+1, len(rows), r.Name, result.line()) // what cannot be shown is not worth ending for
	}
	return results
}

// judge reads what a run left.
func (r *Result) judge(code int, err error) {
	r.ExitCode, r.Status = code, statusOf(code)
	rep, readErr := report.Read(filepath.Join(r.Dir, report.FileReport))
	switch {
	case err != nil:
		r.fail(err)
	case errors.Is(readErr, os.ErrNotExist):
		r.fail(fmt.Errorf("the run ended with exit code %d and left no report; its output is in %s", code, r.Dir+LogSuffix))
	case readErr != nil:
		r.fail(readErr)
	default:
		r.Summary, r.Why, r.report = rep.Summary, why(rep), &rep
		if rep.Summary.ExitCode != code {
			r.fail(fmt.Errorf("the run ended with exit code %d, its report says %d", code, rep.Summary.ExitCode))
		}
	}
}

// LogSuffix follows the name of a run's directory in that of its output.
const LogSuffix = ".log"

func (r *Result) fail(err error) {
	r.Status, r.problem, r.Why = report.Inconclusive, err.Error(), append([]string{err.Error()}, r.Why...)
	if r.ExitCode != report.ExitViolated { // which is proven already
		r.ExitCode = report.ExitEnvironment
		return
	}
	r.Status = report.Violated
}

func statusOf(code int) report.Status {
	switch code {
	case report.ExitHeld:
		return report.Held
	case report.ExitViolated:
		return report.Violated
	}
	return report.Inconclusive
}

// why lists the rows of a report that did not hold.
func why(r report.Report) []string {
	var all []string
	for _, status := range []report.Status{report.Violated, report.Inconclusive} {
		for _, q := range r.Requirements {
			if q.Status == status {
				all = append(all, fmt.Sprintf("%s (%s) %s: %s", q.ID, q.Boundary, strings.ToLower(string(status)), firstLine(q.Message)))
			}
		}
		for _, i := range r.Invariants {
			if i.Status == status {
				all = append(all, fmt.Sprintf("%s (%s) %s: %s", i.Name, i.Boundary, strings.ToLower(string(status)), firstLine(i.Detail)))
			}
		}
	}
	for _, p := range r.Environment {
		all = append(all, fmt.Sprintf("environment: %s: %s", p.Op, firstLine(p.Error)))
	}
	if len(all) > maxWhy {
		all = append(all[:maxWhy], fmt.Sprintf("and %d more", len(all)-maxWhy))
	}
	return all
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// line is a result in a few words.
func (r Result) line() string {
	text := strings.ToLower(string(r.Status))
	if r.Elapsed > 0 {
		text += fmt.Sprintf(" in %.0fs", time.Duration(r.Elapsed).Seconds())
	}
	if len(r.Why) > 0 {
		text += ": " + r.Why[0]
	}
	return text
}

// ExitCode is that of all results together.
func ExitCode(all []Result) int {
	codes := make([]int, 0, len(all))
	for _, r := range all {
		codes = append(codes, r.ExitCode)
	}
	return report.WorstExit(codes...)
}
