package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"headroom/drivers/personas"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/input"
	"headroom/e2e/framework/mutants"
	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
)

// mutantsOptions are those of `headroom mutants`.
type mutantsOptions struct {
	mutants.Options
	run      run.Options
	personas []string
	results  string
	parallel int
}

func mutantsCommand() *cobra.Command {
	var o mutantsOptions
	cmd := &cobra.Command{
		Use:   "mutants",
		Short: "Play plans of faults with broken drivers until each is caught, and with the reference driver as their control",
		Long: `Plays, with each persona, the plans of some seeds one after the other until the invariant is violated that the persona declares as its root, each on a
cluster of its own. The reference driver then plays every plan in which one was caught, and must violate nothing. A matrix at the end says who was
caught in which plan.

What the plays told is kept in --results, where that is given: what is in it already is not played again, so that an interrupted command goes on.`,
		Example: `  headroom mutants --personas negative,stale-cache
  headroom mutants --results fixtures/results/mutants.yaml --parallel 2`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			return o.start(cmd)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.personas, "personas", nil, "personas to play, see headroom drivers (default all)")
	f.Int64Var(&o.Seed, "seed", 1, "seed of the first plan")
	f.IntVar(&o.Seeds, "seeds", 10, "how many plans a persona plays at most, of as many seeds from --seed on")
	f.DurationVar(&o.Duration, "duration", plan.Shortest, fmt.Sprintf("how long a plan plays, its quiet end included: %s to %s", plan.Shortest, plan.Longest))
	f.IntVar(&o.parallel, "parallel", cells(), "clusters at the same time; one for every two processors unless given")
	f.StringVar(&o.results, "results", "", "file of what plays told, to go on from and to add these plays to; it is made where it is missing")
	f.StringVar(&o.run.RunDir, "run-dir", "", "empty or new directory for the plays, one each below it (default runs/<id>)")
	originFlags(f, &o.run.From)
	f.StringVar(&o.run.Cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	complete(cmd, "personas", personas.Names()...)
	return cmd
}

func (o *mutantsOptions) check() error {
	for _, name := range o.personas {
		if _, err := personas.Find(name); err != nil {
			return fmt.Errorf("--personas: %w", err)
		}
	}
	switch {
	case o.Seed < 1:
		return fmt.Errorf("--seed %d: want 1 or more", o.Seed)
	case o.Seeds < 1 || o.Seeds > 100:
		return fmt.Errorf("--seeds %d: want 1 to 100", o.Seeds)
	case o.parallel < 1 || o.parallel > 16:
		return fmt.Errorf("--parallel %d: want 1 to 16", o.parallel)
	}
	return nil
}

func (o *mutantsOptions) start(cmd *cobra.Command) error {
	names := slices.Compact(slices.Sorted(slices.Values(o.personas)))
	if len(names) == 0 {
		names = personas.Names()
	}
	lines, err := mutants.Lines(names, o.Options)
	if err != nil {
		return usageError{err}
	}
	var telling sync.Mutex // lines are played side by side
	h := &hunt{options: o, notes: func(format string, args ...any) {
		telling.Lock()
		defer telling.Unlock()
		say(cmd.ErrOrStderr(), format, args...)
	}}
	if h.results, err = readPlays(o.results); err != nil {
		return usageError{err}
	}
	if h.dir, err = newRunDir(o.run.RunDir); err != nil {
		return err
	}
	h.notes("%d personas, seeds %d to %d, %d at a time  %s\n", len(lines), o.Seed, o.Seed+int64(o.Seeds)-1, o.parallel, h.dir)
	if err := h.playLines(cmd.Context(), lines); err != nil {
		return err
	}
	controls, err := mutants.Controls(lines, h.results)
	if err != nil {
		return err
	}
	if err := h.playLines(cmd.Context(), controls); err != nil {
		return err
	}
	return h.finish(cmd, lines)
}

// finish prints the matrix and what is wrong with it.
func (h *hunt) finish(cmd *cobra.Command, lines []mutants.Line) error {
	text, err := mutants.Matrix(lines, h.results)
	if err != nil {
		return err
	}
	findings, err := mutants.Findings(lines, h.results)
	if err != nil {
		return err
	}
	worst := report.ExitHeld
	for _, f := range findings {
		text += "\n" + f.Text
		worst = report.WorstExit(worst, map[bool]int{true: report.ExitEnvironment, false: report.ExitViolated}[f.Open])
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), text); err != nil {
		return cluster.Environment("print the matrix", err)
	}
	if worst != report.ExitHeld {
		return exitError{code: worst}
	}
	return nil
}

// readPlays reads a file of results; "" is none, and one that is not there is empty.
func readPlays(file string) (mutants.Results, error) {
	if file == "" {
		return mutants.Results{}, nil
	}
	data, err := input.ReadRegular(file, "name a file that can be read, or one that is not there yet")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mutants.Results{}, nil
	case err != nil:
		return mutants.Results{}, fmt.Errorf("--results: %w", err)
	}
	return mutants.Read(file, data)
}

// hunt plays lines.
type hunt struct {
	options *mutantsOptions
	dir     string
	notes   func(format string, args ...any)

	mu      sync.Mutex
	results mutants.Results
}

// playLines plays lines until each is over, so many at a time, and crowded ones after the others, alone.
func (h *hunt) playLines(ctx context.Context, lines []mutants.Line) error {
	var small, crowded []mutants.Line
	for _, l := range lines {
		if l.Crowded() {
			crowded = append(crowded, l)
		} else {
			small = append(small, l)
		}
	}
	err := h.together(ctx, small, h.options.parallel)
	if err == nil {
		err = h.together(ctx, crowded, 1)
	}
	if ctx.Err() != nil {
		return cluster.Environment("play the plans", errors.New("interrupted; with --results the same command goes on"))
	}
	return err
}

// together plays lines side by side. The first error, which is none of a play's, ends them all.
func (h *hunt) together(ctx context.Context, lines []mutants.Line, parallel int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for _, l := range lines {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			if err := h.play(ctx, l); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// play plays a line until it is over.
func (h *hunt) play(ctx context.Context, l mutants.Line) error {
	untold := map[int64]bool{}
	for ctx.Err() == nil {
		h.mu.Lock()
		p, more := l.Next(h.results, untold)
		h.mu.Unlock()
		if !more {
			return nil
		}
		t := trial{name: fmt.Sprintf("%s-%d-%s", p.Driver, p.Seed, p.Digest), seed: p.Seed, plan: p.Text, run: h.options.run}
		t.run.RunDir = filepath.Join(h.dir, t.name)
		e := t.play(ctx)
		row, told := l.RowOf(p, e.report)
		if ctx.Err() != nil && !row.Caught() {
			return nil // it was cut short
		}
		if !told {
			untold[p.Seed] = true
			h.notes("%s\n", e)
			continue
		}
		if err := h.keep(row); err != nil {
			return err
		}
		h.notes("%s seed %d  %s  %s\n", p.Driver, p.Seed, became(l, row), t.run.RunDir)
	}
	return nil
}

// became says what came of a play.
func became(l mutants.Line, row mutants.Row) string {
	text := fmt.Sprintf("not caught: %s %s", l.Root(), row.Root)
	switch {
	case l.Persona == nil && len(row.Violated) == 0:
		text = "violates nothing"
	case l.Persona == nil:
		text = "violates " + strings.Join(row.Violated, " ")
	case row.Caught():
		text = "caught: violates " + strings.Join(row.Violated, " ")
	case len(row.Violated) > 0:
		text += ", violates " + strings.Join(row.Violated, " ")
	}
	if row.Cut != "" {
		text += "; it ended early: " + row.Cut
	}
	return text
}

// keep adds a play, and writes the file, so that what is played later cannot lose it.
func (h *hunt) keep(row mutants.Row) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results.Add(row)
	if h.options.results == "" {
		return nil
	}
	text, err := h.results.Encode()
	if err == nil {
		err = report.WriteFile(h.options.results, text)
	}
	return cluster.Environment("write the results", err)
}
