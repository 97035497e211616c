package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/input"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/reproduce"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/scenario"
)

// copies are the stories as often as they are to be played. A copy has a name of its own, and with it nodes and a driver of its own.
func copies(stories []story, times int) ([]story, error) {
	if times < 1 || times > 100 {
		return nil, fmt.Errorf("--times %d: want 1 to 100", times)
	}
	var all []story
	for _, s := range stories {
		for i := range times {
			c := *s.Scenario
			if c.Metadata.Name = fmt.Sprintf("%s-%d", s.Metadata.Name, i+1); len(c.Metadata.Name) > scenario.MaxName {
				return nil, fmt.Errorf("--times %d: scenario %q: its copies would be called %q, and a name has at most %d letters (remedy: give it a shorter one)",
					times, s.Metadata.Name, c.Metadata.Name, scenario.MaxName)
			}
			if slices.ContainsFunc(stories, func(o story) bool { return o.Metadata.Name == c.Metadata.Name }) {
				return nil, fmt.Errorf("--times %d: %q is the name of another scenario (remedy: play the two one after the other)", times, c.Metadata.Name)
			}
			all = append(all, story{file: s.file, Scenario: &c, of: s.Scenario})
		}
	}
	return all, nil
}

// tallied are the results that plays are added to.
type tallied struct {
	file string // "" keeps none
	all  reproduce.Results
	now  reproduce.Results // of this command's plays
}

// readResults reads the file that results are added to; "" is none, and one that is not there is empty.
func readResults(file string) (*tallied, error) {
	t := &tallied{file: file}
	if file == "" {
		return t, nil
	}
	data, err := input.ReadRegular(file, "name a file that can be read, or one that is not there yet")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return nil, fmt.Errorf("--results: %w", err)
	}
	t.all, err = reproduce.Read(file, data)
	return t, err
}

// add adds what became of some copies, and writes the file, so that what is played later cannot lose it.
func (t *tallied) add(dir string, r report.Report, group []story) error {
	for _, s := range group {
		row, err := reproduce.Of(s.of, r, run.SpecOf(s.Metadata.Name))
		if err == nil && row.Reproduced > 0 {
			row.Faults, err = faultsOf(dir, r, s.Metadata.Name)
		}
		if err != nil {
			return err
		}
		t.now.Add(row)
		t.all.Add(row)
	}
	if t.file == "" {
		return nil
	}
	text, err := t.all.Encode()
	if err == nil {
		err = report.WriteFile(t.file, text)
	}
	return cluster.Environment("write the results", err)
}

// faultsOf are the faults that a play had, by the history of its run.
func faultsOf(dir string, r report.Report, name string) (_ []reproduce.Fault, err error) {
	of := slices.IndexFunc(r.Requirements, func(q report.Requirement) bool { return q.ID == run.SpecOf(name) })
	played, err := report.OpenRun(dir, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, played.Close()) }()
	return reproduce.Faults(played.Events(), name, r.Requirements[of])
}

// replay plays copies and says how often each scenario showed what it expects.
func (t *tallied) replay(cmd *cobra.Command, o run.Options, stories []story, procs int) error {
	played := replay(cmd, o, stories, procs, t.add)
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	say(w, "\nSCENARIO\tREPRODUCED\tLONGEST\n")
	for _, row := range t.now.Rows {
		say(w, "%s\t%s\t%s\n", row.Scenario, row, row.Longest)
	}
	err := w.Flush()
	if err == nil {
		_, err = cmd.OutOrStdout().Write(text.Bytes())
	}
	return errors.Join(played, cluster.Environment("print the table", err))
}
