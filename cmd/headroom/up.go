package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headroom/drivers"
	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind"
	"headroom/e2e/framework/cluster/local"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
)

// runFlags are the flags that every command has which makes a cluster.
func runFlags(cmd *cobra.Command, o *run.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Driver, "driver", "steady", "driver under test: a name from 'headroom drivers', or a path to a .yaml file")
	f.StringVar(&o.Provider, "provider", run.Providers[0], "what makes the cluster: "+strings.Join(run.Providers, " or "))
	f.StringVar(&o.Topology, "topology", "", "nodes of a kind cluster: "+strings.Join(kind.TopologyNames(), ", ")+", or a path to a .yaml file")
	f.StringVar(&o.RunDir, "run-dir", "", "empty or new directory for events, logs and reports (default runs/<id>)")
	f.Int64Var(&o.Seed, "seed", 0, "seed of all random choices (default a new one, printed)")
	f.IntVar(&o.Port, "port", 0, "port of the API server on 127.0.0.1 (default any)")
	f.Float64Var(&o.Scale, "timeout-scale", 1, "stretch what is waited for and allowed, for a driver under a debugger; Kubernetes' own constants stay")
	f.StringVar(&o.Cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	originFlags(f, &o.From)
	completeWith(cmd, "driver", completeDrivers)
}

func upCommand() *cobra.Command {
	var o run.Options
	var v versionFlags
	var nodes int
	var limit int64
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster with the driver on every node until Ctrl-C",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if nodes < 0 || nodes > 200 {
				return usageError{fmt.Errorf("--nodes %d: want 0 to 200", nodes)}
			}
			if err := v.choose(&o); err != nil {
				return err
			}
			o.Out = cmd.ErrOrStderr()
			return up(cmd, o, nodes, limit)
		},
	}
	runFlags(cmd, &o)
	v.add(cmd)
	cmd.Flags().IntVar(&nodes, "nodes", 2, "number of nodes")
	cmd.Flags().Int64Var(&limit, "limit", 5, "volumes that the backend lets be attached to each node")
	return cmd
}

func up(cmd *cobra.Command, o run.Options, nodes int, limit int64) (err error) {
	ctx := cmd.Context()
	s, err := run.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.End(context.WithoutCancel(ctx))) }()
	release, err := register(s.Dir)
	if err != nil {
		return err
	}
	defer release()
	setup := run.Setup{Period: run.Shortest}
	for range nodes {
		setup.Nodes = append(setup.Nodes, run.Node{Limit: limit})
	}
	b, err := s.NewBench(ctx, setup)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	say(out, "export KUBECONFIG=%s\n", s.Kubeconfig())
	say(cmd.ErrOrStderr(), "%s, driver %s, %s each. Quota: headroom quota --control %s ...\nCtrl-C, or `headroom down`, ends it.\n",
		report.Plural(len(b.Nodes), "node"), b.Driver, report.Plural(int(limit), "volume"), s.QuotaAddress())
	select {
	case <-ctx.Done():
		return nil
	case <-s.Done():
		return cluster.Environment("run the cluster", fmt.Errorf("it ended by itself; see %s/logs", s.Dir))
	}
}

func doctorCommand() *cobra.Command {
	var nodes int
	var dir string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine lacks for a local cluster, and the command that mends it",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			needs := local.Diagnose(cmd.Context(), dir, nodes)
			needs = append(needs, diagnoseBinaries(cmd.Context()))
			missing := 0
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			for _, n := range needs {
				if n.Err == nil {
					say(w, "ok\t%s\t%s\n", n.Name, n.Detail)
					continue
				}
				missing++
				say(w, "MISSING\t%s\t%v\n", n.Name, n.Err)
				say(w, "\t\t  remedy: %s\n", n.Remedy)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if missing > 0 {
				return exitError{code: 3, error: fmt.Errorf("%d of %d needs are not met", missing, len(needs))}
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 2, "number of nodes to look for room for")
	cmd.Flags().StringVar(&dir, "run-dir", ".", "where the run directory will be")
	return cmd
}

// diagnoseBinaries says whether the components are at hand or have to be built.
func diagnoseBinaries(ctx context.Context) local.Need {
	n := local.Need{Name: "binaries"}
	list, err := binaries.List(ctx, binaries.Options{})
	if err != nil {
		n.Err, n.Remedy = err, "install Go, which builds them: https://go.dev/doc/install"
		return n
	}
	cached := 0
	for _, s := range list {
		if s.State == binaries.Cached {
			cached++
		}
	}
	n.Detail = fmt.Sprintf("%d of %d in the cache", cached, len(list))
	if cached < len(list) {
		n.Detail += "; the rest will be downloaded at the first run, or built where that is not possible (about 15 minutes on 2 cores)"
	}
	return n
}

func driversCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "drivers",
		Short: "List the drivers that --driver knows by name",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			for _, name := range drivers.Names() {
				d, err := drivers.Load(name)
				if err != nil {
					return err
				}
				kind := "driver"
				if d.Persona != nil {
					kind = "persona, breaks " + d.Persona.Root
				}
				say(w, "%s\t%s\t%s\n", name, kind, d.Description)
			}
			return w.Flush()
		},
	}
}
