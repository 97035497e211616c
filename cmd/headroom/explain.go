package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headroom/drivers"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
	"headroom/e2e/invariants"
)

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [INVARIANT | REQUIREMENT]",
		Short: "Say what a row of the report claims, who is to blame when it is violated, and what to look at",
		Example: `  headroom explain never-unbounded
  headroom explain          # lists the names`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MaximumNArgs(1)(cmd, args); err != nil {
				return usageError{fmt.Errorf("%s: %w; see: %s --help", cmd.CommandPath(), err, cmd.CommandPath())}
			}
			return nil
		},
		ValidArgsFunction: completeExplained,
		RunE: func(cmd *cobra.Command, args []string) error {
			all := explanations()
			if len(args) == 0 {
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
				for _, e := range all {
					say(w, "%s\t%s\t%s\n", e.Name, e.Kind, e.Boundary)
				}
				return w.Flush()
			}
			i := slices.IndexFunc(all, func(e report.Explanation) bool { return e.Name == args[0] })
			if i < 0 {
				var names []string
				for _, e := range all {
					names = append(names, e.Name)
				}
				return usageError{fmt.Errorf("no invariant or requirement %q; there are: %s", args[0], strings.Join(names, ", "))}
			}
			return report.Explain(cmd.OutOrStdout(), all[i])
		},
	}
}

// explanations are all rows that a report may have: requirements, then invariants, each by name.
func explanations() []report.Explanation {
	var out []report.Explanation
	for _, r := range run.Requirements() {
		e := report.Explanation{Name: r.ID, Kind: "requirement", Claim: r.Claim, Source: r.Source, Boundary: r.Boundary}
		if len(r.Labels) > 0 {
			e.Add("labels", strings.Join(r.Labels, ", "))
		}
		for _, name := range r.Needs {
			e.Add("needs", feature(name))
		}
		for _, name := range r.Lacks {
			e.Add("lacks", feature(name)+": where that is so, the requirement does not apply")
		}
		e.Add("takes", fmt.Sprintf("at most %s", r.Limit))
		e.Add("alone", fmt.Sprintf("headroom run --focus '^%s$'", r.ID))
		e.Add("look at", lookAt(r.Boundary)+`; `+fmt.Sprintf(`jq -c 'select(.key == %q)' RUN-DIR/events/spec/*.jsonl names its scope`, r.ID))
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b report.Explanation) int { return strings.Compare(a.Name, b.Name) })
	for _, i := range invariants.All() {
		e := report.Explanation{Name: i.Name, Kind: "invariant", Claim: i.Claim, Source: i.Source, Boundary: i.Boundary}
		e.Add("needs", strings.Join(i.Needs, ", ")+": a gap in one of these sources makes it inconclusive")
		known := "no upstream defect is known"
		for n, k := range i.KnownUpstream {
			text := strings.Join(strings.Fields(k.Versions+" "+k.Source+" "+k.Scenario), " ")
			if n == 0 {
				known = text
			} else {
				known += "; " + text
			}
		}
		e.Add("known", known)
		if names := breakers(i.Name); len(names) > 0 {
			e.Add("see it", fmt.Sprintf("headroom run --driver %s", strings.Join(names, ", or --driver ")))
		}
		e.Add("look at", fmt.Sprintf("RUN-DIR/%s/%s-*.jsonl; %s", report.DirEvidence, i.Name, lookAt(i.Boundary)))
		out = append(out, e)
	}
	return out
}

// feature says which versions have a feature.
func feature(name string) string {
	f, _ := versions.Embedded().Feature(name) // Register saw it
	return fmt.Sprintf("%s: %s, from %s on with %s", name, strings.ReplaceAll(f.Does, "{}", f.Component), f.Since, f.Gate)
}

// lookAt names the logs of a boundary.
func lookAt(b history.Boundary) string {
	var logs []string
	for _, name := range report.LogNames(b) {
		logs = append(logs, "logs/"+name)
	}
	return cmp.Or(strings.Join(logs, ", "), "logs/")
}

// breakers are the personas that must break an invariant.
func breakers(invariant string) (out []string) {
	for _, name := range drivers.Names() {
		if d, err := drivers.Load(name); err == nil && d.Persona != nil && d.Persona.Root == invariant {
			out = append(out, name)
		}
	}
	return out
}
