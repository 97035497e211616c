package drivercheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/report"
)

// Table prints the report for people: a row for each check, then what was violated, then what was not put to the test and why.
func (r Report) Table(w io.Writer) error {
	var out bytes.Buffer
	line := func(format string, args ...any) {
		out.WriteString(strings.TrimRight(plain(fmt.Sprintf(format, args...)), " ") + "\n")
	}
	line("driver %s %s   node %q   %.1fs", r.Name(), r.Version, r.Node, time.Duration(r.Elapsed).Seconds())
	line("")
	width := len("CHECK")
	for _, c := range r.Checks {
		width = max(width, len(c.ID))
	}
	line("%-*s  %-12s  %s", width, "CHECK", "VERDICT", "CASES")
	for _, c := range r.Checks {
		line("%-*s  %-12s  %s", width, c.ID, word(c.Status), c.tally())
	}
	for _, part := range []struct {
		title string
		of    func(Case) bool
	}{
		{"violated", func(c Case) bool { return worse(c.Status) <= 0 }},
		{"not told", func(c Case) bool { return c.Status == report.Inconclusive }},
		{"skipped", func(c Case) bool { return c.Status == report.Skipped && !c.Declared }},
		{"does not apply", func(c Case) bool { return c.Status == report.Skipped && c.Declared }},
	} {
		title := false
		for _, c := range r.Checks {
			if !slices.ContainsFunc(c.Cases, part.of) {
				continue
			}
			if !title {
				line("")
				line("%s:", part.title)
				title = true
			}
			line("  %s: %s (%s)", c.ID, c.Claim, c.Source)
			for _, k := range c.Cases {
				if part.of(k) {
					line("    %s", k.text())
				}
			}
		}
	}
	line("")
	line("%s: %d held, %d violated, %d inconclusive, %d skipped: %s",
		report.Plural(len(r.Checks), "check"), r.Summary.Held, r.Summary.Violated, r.Summary.Inconclusive, r.Summary.Skipped, strings.ToLower(string(r.Conclusion)))
	_, err := w.Write(out.Bytes())
	return err
}

// JSON prints the report for programs.
func (r Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// YAML prints the report for programs too, and for comparing by eye.
func (r Report) YAML(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(r); err != nil {
		return err
	}
	return enc.Close()
}

// word is a verdict as people read it; what is none is shouted.
func word(s report.Status) string {
	switch s {
	case report.Held, report.Inconclusive, report.Skipped:
		return strings.ToLower(string(s))
	case report.Violated:
		return "VIOLATED"
	}
	return "NO VERDICT"
}

// tally counts a check's cases by verdict.
func (c Result) tally() string {
	count := map[report.Status]int{}
	for _, k := range c.Cases {
		count[k.Status]++
	}
	var parts []string
	for _, s := range order {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], strings.ToLower(string(s))))
		}
	}
	text := strings.Join(parts, ", ")
	if !c.Core {
		text += " (extended)"
	}
	return text
}

// plain takes the meaning from control characters: messages come from drivers.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
