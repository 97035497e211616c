package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	plan "headroom/e2e/framework/plan/upgrade"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
	"headroom/e2e/upgrade"
)

// upgradeOptions are those of `headroom upgrade`.
type upgradeOptions struct {
	plan.Options
	run              run.Options
	from, to         string
	printOnly, noWay bool
	noise, stale     bool
	versions         versionFlags
}

func upgradeCommand() *cobra.Command {
	var o upgradeOptions
	cmd := &cobra.Command{
		Use:   "upgrade --from VERSION --to VERSION",
		Short: "Walk a cluster from one version to another and back under load, and say whether that is safe",
		Long: `Plans an upgrade as KEP-4876 and the version skew policy order it, and takes it step by step on a cluster that works: attacher, API server,
controller manager and scheduler, canary nodes and the others, each drained for it, the driver's new release, the period. It then rolls everything back
from a step that the seed chooses, and upgrades again. Pods with volumes come and go and quotas change throughout.

While the cluster bakes, stop rules read its signals: a broken one ends the walk, unsets the period and keeps the last counts that could be trusted.
The end is one page that says whether the upgrade is safe, and why.`,
		Example: `  headroom upgrade --from 1.34 --to 1.36 --plan-only
  headroom upgrade --from 1.35 --to 1.36 --no-rollback
  headroom upgrade --from 1.35 --to 1.36 --driver old.yaml --new-driver new.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			steps, err := o.check(cmd)
			if err != nil {
				return err
			}
			if o.printOnly {
				_, err := fmt.Fprint(cmd.OutOrStdout(), plan.Text(steps))
				return cluster.Environment("print the plan", err)
			}
			o.run.Out = cmd.ErrOrStderr()
			return o.start(cmd, steps)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "Kubernetes version to begin with, such as 1.34 or v1.34.4")
	f.StringVar(&o.to, "to", "", "Kubernetes version to end with (default "+versions.Default().Version.String()+")")
	f.IntVar(&o.Nodes, "nodes", 2, "how many nodes there are: 1 to 50")
	f.IntVar(&o.Canaries, "canaries", 1, "how many of them are upgraded first")
	f.DurationVar(&o.Bake, "bake", 30*time.Second, "how long the signals are watched after the canaries have the new kubelet, the new driver, and after the period is set")
	f.IntVar(&o.RollbackAfter, "rollback-after", 0, "number of the step after which everything is rolled back (default one that the seed chooses)")
	f.BoolVar(&o.noWay, "no-rollback", false, "only upgrade")
	f.BoolVar(&o.Again, "again", true, "upgrade once more after the rollback")
	f.Int64Var(&o.Seed, "seed", 0, "seed of the plan and of all random choices (default a new one, printed)")
	f.BoolVar(&o.printOnly, "plan-only", false, "only print the plan")
	f.StringVar(&o.run.Driver, "driver", defaultDriver, "driver under test: a name from 'headroom drivers', or a path to a .yaml file")
	f.StringVar(&o.run.NewDriver, "new-driver", "", "the driver's new release: a name or a path as of --driver (default --driver with RELEASE 2)")
	f.BoolVar(&o.noise, "noise", false, "let the quota backend fail for seconds at a time while the cluster bakes, which a healthy driver bears and no stop rule takes for more")
	f.BoolVar(&o.stale, "stale-writer", false, "let a controller write an older count back into a CSINode while the cluster bakes, which must pause growth and end nothing")
	f.StringSliceVar(&o.versions.gates, "gate", nil, "feature gate of a component at every version, such as kubelet/"+versions.MutableCSINodeAllocatableCount+"=true; may be repeated")
	f.StringVar(&o.run.RunDir, "run-dir", "", "empty or new directory for events, logs and reports (default runs/<id>)")
	f.IntVar(&o.run.Port, "port", 0, "port of the API server on 127.0.0.1 (default any)")
	originFlags(f, &o.run.From)
	f.StringVar(&o.run.Cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	for _, flag := range []string{"from", "to"} {
		completeWith(cmd, flag, completeVersions)
	}
	for _, flag := range []string{"driver", "new-driver"} {
		completeWith(cmd, flag, completeDrivers)
	}
	return cmd
}

// check fills the options in and makes the plan. Whatever is wrong with them is found here, before anything starts.
func (o *upgradeOptions) check(cmd *cobra.Command) ([]plan.Step, error) {
	given := cmd.Flags().Changed
	switch {
	case o.from == "":
		return nil, usageError{errors.New("--from: want the Kubernetes version to begin with, such as 1.34")}
	case o.noWay && given("rollback-after"), o.noWay && given("again") && o.Again:
		return nil, usageError{errors.New("--no-rollback: leave --rollback-after and --again out, or leave this one out")}
	case given("rollback-after") && o.RollbackAfter < 1:
		return nil, usageError{fmt.Errorf("--rollback-after %d: want the number of a step, 1 or more (see --plan-only)", o.RollbackAfter)}
	case given("seed") && o.Seed < 1:
		return nil, usageError{fmt.Errorf("--seed %d: want 1 or more", o.Seed)}
	}
	from, err := versions.Embedded().Find(o.from)
	if err != nil {
		return nil, usageError{fmt.Errorf("--from: %w", err)}
	}
	to := versions.Default()
	if o.to != "" {
		if to, err = versions.Embedded().Find(o.to); err != nil {
			return nil, usageError{fmt.Errorf("--to: %w", err)}
		}
	}
	driver, err := drivers.Load(o.run.Driver)
	if err != nil {
		return nil, usageError{fmt.Errorf("--driver: %w", err)}
	}
	if o.noWay {
		o.RollbackAfter, o.Again = -1, false
	}
	if o.Seed == 0 {
		o.Seed = newSeed()
	}
	o.From, o.To, o.Controller = from.Version, to.Version, driver.HasController()
	steps, err := o.Steps()
	if err != nil {
		return nil, usageError{err}
	}
	if err := o.versions.choose(&o.run); err != nil {
		return nil, err
	}
	o.run.Kubernetes, o.run.Seed, o.run.NodeLease = o.From, o.Seed, upgrade.NodeLease
	if o.run.Later, err = o.Through(); err != nil {
		return nil, usageError{err}
	}
	return steps, run.Check(o.run)
}

// start takes the walk.
func (o *upgradeOptions) start(cmd *cobra.Command, steps []plan.Step) error {
	ctx := cmd.Context()
	if err := run.Obtainable(ctx, o.run); err != nil {
		return err
	}
	say(cmd.ErrOrStderr(), "seed %d, %s\n%s", o.Seed, report.Plural(len(steps), "step"), plan.Text(steps))
	s, err := run.Start(ctx, o.run)
	if err != nil {
		return err
	}
	release, err := register(s.Dir)
	if err != nil {
		return errors.Join(err, s.End(context.WithoutCancel(ctx)))
	}
	defer release()
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	followed := make(chan error, 1)
	go func() { followed <- report.Follow(follow, filepath.Join(s.Dir, "events"), cmd.ErrOrStderr()) }()
	s.Phase("faults")
	s.While(ctx, func(ctx context.Context) {
		err := upgrade.Walk(ctx, s, upgrade.Options{
			Options: o.Options, Steps: steps, NewDriver: o.run.NewDriver, Noise: o.noise, StaleWriter: o.stale, Out: cmd.ErrOrStderr(),
		})
		if err != nil {
			say(cmd.ErrOrStderr(), "the bench of the walk is not quite gone: %v\n", err)
		}
	})
	if ctx.Err() != nil {
		s.Problem("take the walk", errors.New("interrupted"))
	}
	stop()
	s.Problem("show the progress", <-followed)
	r, err := s.Finish(ctx)
	if err != nil {
		return err
	}
	if err := printReport(cmd.OutOrStdout(), r, s.Dir, "table"); err != nil {
		return cluster.Environment("print the report", err)
	}
	if code := report.ExitCode(r); code != report.ExitHeld {
		return exitError{code: code}
	}
	return nil
}
