package preflight

import (
	"fmt"
	"io"
	"strings"
)

// Table prints a result for people, on one page.
func Table(out io.Writer, r Result) error {
	var b strings.Builder
	subject := fmt.Sprintf("upgrade from %s to %s", r.Server, r.To)
	if r.Server == r.To {
		subject = fmt.Sprintf("as it is, at %s", r.Server)
	}
	answer := map[Answer]string{Go: "yes", AnswerNo: "no", AnswerOpen: "not known"}[r.Safe]
	fmt.Fprintf(&b, "safe (%s): %s%s\n", subject, answer, because(r))
	section := func(name string, answer Answer, findings []Finding) {
		fmt.Fprintf(&b, "\n%s  %s\n", name, answer)
		for _, f := range findings {
			boundary := ""
			if f.Boundary != "" {
				boundary = " (" + string(f.Boundary) + ")"
			}
			fmt.Fprintf(&b, "  %-7s  %s%s: %s\n           remedy: %s\n", f.Level, f.Rule, boundary, f.What, f.Remedy)
		}
	}
	if len(r.Cluster) > 0 {
		section("cluster", answerOf(r.Cluster), r.Cluster)
	}
	for _, d := range r.Drivers {
		section(d.Driver, d.Answer, d.Findings)
	}
	if len(r.Drivers) == 0 {
		b.WriteString("\nno CSI driver that attaches volumes was found\n")
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("print the preflight: %w", err)
	}
	return nil
}

// because is the reason for an answer that is no go: the first finding of its level.
func because(r Result) string {
	level := map[Answer]Level{AnswerNo: NoGo, AnswerOpen: Unknown}[r.Safe]
	if level == "" {
		return ""
	}
	n, first := 0, ""
	count := func(where string, findings []Finding) {
		for _, f := range findings {
			if f.Level == level {
				if n++; n == 1 {
					first = where + f.What
				}
			}
		}
	}
	count("", r.Cluster)
	for _, d := range r.Drivers {
		count(d.Driver+": ", d.Findings)
	}
	text := ", because " + first
	if n > 1 {
		text += fmt.Sprintf("; and %d more", n-1)
	}
	return text
}
