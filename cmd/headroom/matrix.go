package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/matrix"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
	"headroom/e2e/suite"
)

// matrixOutputs are the forms in which a matrix is printed.
var matrixOutputs = []string{"table", "json", "github"}

// matrixFlags are the choices of one matrix.
type matrixFlags struct {
	from, to, shard, output string
	all, list               bool
	attachers               []string
	focus, labels           string
	procs                   int
	options                 run.Options
}

func matrixCommand() *cobra.Command {
	var m matrixFlags
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Run the smoke specs on the supported combinations of component versions, or list them",
		Long: `Combinations of API server, controller manager and scheduler, kubelet, and external-attacher that the Kubernetes version skew policy
supports. Without --all, a covering set: every pair of component versions that may meet meets in one of them. Each runs on a local cluster of its own.`,
		Example: `  headroom matrix --list --from 1.34 --to 1.37
  headroom matrix --from 1.35 --to 1.36 --shard 1/4
  headroom matrix --list -o github`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&m.from, "from", "", "oldest Kubernetes version, such as 1.34 (default the oldest known)")
	f.StringVar(&m.to, "to", "", "newest Kubernetes version, such as 1.37 (default the newest known that is no pre-release)")
	f.StringSliceVar(&m.attachers, "attacher", nil, "only these external-attacher versions, such as 4.12,4.13 (default all known ones)")
	f.BoolVar(&m.all, "all", false, "every supported combination instead of a covering set")
	f.BoolVar(&m.list, "list", false, "print the combinations and run nothing")
	f.StringVar(&m.shard, "shard", "", "only one part of the combinations, such as 2/5")
	f.StringVarP(&m.output, "output", "o", matrixOutputs[0], "what to print: "+strings.Join(matrixOutputs, ", ")+"; github, with --list, is a job matrix for GitHub Actions")
	f.StringVar(&m.options.Driver, "driver", "steady", "driver under test: a name from 'headroom drivers', or a path to a .yaml file")
	f.StringVar(&m.focus, "focus", "", "run only specs whose id matches the regular expression")
	f.StringVar(&m.labels, "label-filter", run.LabelSmoke, "run only specs whose labels match")
	f.IntVar(&m.procs, "procs", 4, "parallel spec processes of each run")
	f.StringVar(&m.options.RunDir, "run-dir", "", "empty or new directory for the runs, one below it for each combination (default runs/matrix-<time>)")
	f.Int64Var(&m.options.Seed, "seed", 0, "seed of all random choices of each run (default a new one for each, printed)")
	f.StringVar(&m.options.Cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	originFlags(f, &m.options.From)
	complete(cmd, "output", matrixOutputs...)
	completeWith(cmd, "from", completeVersions)
	completeWith(cmd, "to", completeVersions)
	completeWith(cmd, "driver", completeDrivers)
	completeWith(cmd, "focus", completeSpecs)
	complete(cmd, "label-filter", labels()...)
	return cmd
}

// rows are the combinations that were chosen. Every error is the user's.
func (m *matrixFlags) rows() ([]matrix.Row, error) {
	table := versions.Embedded()
	var from, to versions.Version
	for _, bound := range []struct {
		flag, text string
		v          *versions.Version
	}{{"--from", m.from, &from}, {"--to", m.to, &to}} {
		if bound.text == "" {
			continue
		}
		r, err := table.Find(bound.text)
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", bound.flag, err)}
		}
		*bound.v = r.Version
	}
	if from != "" && to != "" && from.Compare(to) > 0 {
		return nil, usageError{fmt.Errorf("--from %s is newer than --to %s", from, to)}
	}
	var attachers []versions.Version
	for _, text := range m.attachers {
		a, err := table.FindAttacher(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--attacher: %w", err)}
		}
		attachers = append(attachers, a.Version)
	}
	chosen := table.Supported(table.Between(from, to), attachers...)
	if !m.all {
		chosen = versions.Cover(chosen)
	}
	if m.shard != "" {
		s, err := versions.ParseShard(m.shard)
		if err != nil {
			return nil, usageError{fmt.Errorf("--%w", err)}
		}
		if chosen = s.Part(chosen); len(chosen) == 0 && !m.list {
			return nil, usageError{fmt.Errorf("--shard %s: it has no combination, there are fewer than shards", m.shard)}
		}
	}
	return matrix.Rows(table, chosen), nil
}

func (m *matrixFlags) run(cmd *cobra.Command) error {
	switch {
	case !slices.Contains(matrixOutputs, m.output):
		return usageError{fmt.Errorf("%s: --output: want one of %s, got %q", cmd.CommandPath(), strings.Join(matrixOutputs, ", "), m.output)}
	case m.output == "github" && !m.list:
		return usageError{errors.New("--output github: it is for --list, whose jobs then run the combinations")}
	case m.procs < 1 || m.procs > 32:
		return usageError{fmt.Errorf("--procs %d: want 1 to 32", m.procs)}
	}
	if err := m.options.From.Check(); err != nil {
		return usageError{err}
	}
	if _, err := drivers.Load(m.options.Driver); err != nil {
		return usageError{err}
	}
	specs, err := suite.Select(m.focus, m.labels)
	if err != nil {
		return usageError{err}
	}
	rows, err := m.rows()
	if err != nil {
		return err
	}
	for _, r := range rows {
		if _, err := suite.Applicable(specs, r.Ran()); err != nil {
			return usageError{fmt.Errorf("%s: %w", r.Name, err)}
		}
	}
	out := cmd.OutOrStdout()
	if m.list {
		switch m.output {
		case "github":
			return matrix.GitHub(out, rows)
		case "json":
			return matrix.JSON(out, rows)
		}
		return matrix.List(out, rows)
	}
	if m.options.RunDir == "" {
		m.options.RunDir = filepath.Join("runs", "matrix-"+time.Now().UTC().Format("20060102-150405"))
	}
	if m.options.RunDir, err = filepath.Abs(m.options.RunDir); err != nil {
		return usageError{err}
	}
	if err := run.MakeRunDir(m.options.RunDir); err != nil {
		return err
	}
	m.options.Out = cmd.ErrOrStderr()
	if err := m.provide(cmd.Context(), rows); err != nil {
		return err
	}
	results := matrix.Run(cmd.Context(), rows, m.options.RunDir, m.start, cmd.ErrOrStderr())
	if m.output == "json" {
		err = matrix.JSON(out, results)
	} else {
		err = matrix.Table(out, results)
	}
	if err != nil {
		return cluster.Environment("print the matrix", err)
	}
	junit, err := matrix.JUnit(results)
	if err == nil {
		err = report.WriteFile(filepath.Join(m.options.RunDir, report.FileJUnit), junit)
	}
	if err != nil {
		return cluster.Environment("write the results of the matrix", err)
	}
	if code := matrix.ExitCode(results); code != report.ExitHeld {
		return exitError{code: code}
	}
	return nil
}

// provide gets all binaries before the first run: what cannot be had is said at once, and no run's time has a build in it.
func (m *matrixFlags) provide(ctx context.Context, rows []matrix.Row) error {
	var all []run.Options
	for _, r := range rows {
		o := m.options
		o.Kubernetes, o.Components = r.Versions["kube-apiserver"], r.Components(versions.Embedded())
		all = append(all, o)
	}
	return run.Provide(ctx, all)
}

// start runs a row as `headroom run` in a process of its own, whose output goes to a file beside the run's directory.
func (m *matrixFlags) start(ctx context.Context, r matrix.Row, dir string) (int, error) {
	args := append([]string{
		"run", "--driver", m.options.Driver, "--run-dir", dir, "--focus", m.focus, "--label-filter", m.labels, "--procs", strconv.Itoa(m.procs),
		"--seed", strconv.FormatInt(m.options.Seed, 10), "--binaries", string(m.options.From.Mode), "--mirror", m.options.From.Mirror, "--cache", m.options.Cache,
	}, r.Args...)
	return child(ctx, dir+matrix.LogSuffix, args)
}
