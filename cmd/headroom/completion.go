package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"headroom/drivers"
	"headroom/e2e/framework/run"
	"headroom/e2e/invariants"
)

// complete lets a shell complete a flag's value with values. A flag that is not there is a mistake of the program's.
func complete(cmd *cobra.Command, flag string, values ...string) {
	completeWith(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeWith(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(fmt.Sprintf("%s: complete --%s: %v", cmd.CommandPath(), flag, err))
	}
}

// runDirectory completes the one argument of commands that take a run directory.
func runDirectory(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// specIDs are the ids of all specs with their claims.
func specIDs() (out []cobra.Completion) {
	for _, r := range run.Requirements() {
		out = append(out, cobra.CompletionWithDesc(r.ID, r.Claim))
	}
	return out
}

func completeSpecs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return specIDs(), cobra.ShellCompDirectiveNoFileComp
}

// completeDrivers offers the names; a driver may also be a file.
func completeDrivers(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for _, name := range drivers.Names() {
		if d, err := drivers.Load(name); err == nil {
			out = append(out, cobra.CompletionWithDesc(name, d.Description))
		}
	}
	return out, cobra.ShellCompDirectiveDefault
}

// labels are the labels that specs have.
func labels() (out []string) {
	for _, r := range run.Requirements() {
		out = append(out, r.Labels...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// completeExplained offers what `headroom explain` takes.
func completeExplained(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := specIDs()
	for _, i := range invariants.All() {
		out = append(out, cobra.CompletionWithDesc(i.Name, i.Claim))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
