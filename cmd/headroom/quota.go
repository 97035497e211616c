package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster"
	"headroom/fixtures/quota"
)

const (
	defaultQuotaData    = "127.0.0.1:8970"
	defaultQuotaControl = "127.0.0.1:8971"
)

// quotaCommand serves the mock quota backend, and drives a running one by hand.
func quotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Serve the mock quota backend, or drive one by hand",
		Long: `The quota backend is the simulated cloud that limits how many volumes may be attached to a node.

"headroom quota serve" runs one; the other commands talk to its control interface.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{errors.New("quota: say what to do: serve, get, set, volume, fault, heal or state")}
		},
	}
	cmd.AddCommand(quotaServe(), quotaGet(), quotaSet(), quotaVolume(), quotaFault(), quotaHeal(), quotaState())
	for _, c := range append(cmd.Commands(), cmd) {
		check := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{fmt.Errorf("%s: %w", cmd.CommandPath(), err)}
			}
			return nil
		}
		c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
			return usageError{fmt.Errorf("%s: %w", cmd.CommandPath(), err)}
		})
	}
	return cmd
}

func quotaServe() *cobra.Command {
	var o quota.Service
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the backend until interrupted",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&o.Data, "listen", defaultQuotaData, "where drivers ask: host:port or unix:/path")
	cmd.Flags().StringVar(&o.Control, "control", defaultQuotaControl, "where limits and faults are set, without credentials: host:port or unix:/path")
	cmd.Flags().StringVar(&o.Events, "events", "", "folder for the ground-truth log backend.jsonl (default: no log)")
	cmd.Flags().StringVar(&o.Run, "run", "manual", "id of the run in the log")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Run == "" {
			return usageError{errors.New("--run: empty; give the run an id")}
		}
		o.Ready = func(data, control string) {
			fmt.Fprintf(cmd.OutOrStdout(), "quota backend: data at %s, control at %s\n", data, control)
		}
		return cluster.Environment("serve the quota backend", o.Serve(cmd.Context()))
	}
	return cmd
}

// quotaControlFlag adds --control to a client command. The function it returns is for use after parsing.
func quotaControlFlag(cmd *cobra.Command) func() *quota.Control {
	url := cmd.Flags().String("control", "http://"+defaultQuotaControl, "control interface of the backend: URL, host:port or unix:/path")
	return func() *quota.Control { return quota.NewControl(*url, nil) }
}

func quotaGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NODE",
		Short: "Print a node's limit, attachments and fault",
		Args:  cobra.ExactArgs(1),
	}
	control := quotaControlFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st, err := control().State(cmd.Context())
		if err != nil {
			return quotaError(err)
		}
		n, ok := st.Nodes[args[0]]
		if !ok {
			return usageError{fmt.Errorf("no node %q; add it with: headroom quota set %s --limit N", args[0], args[0])}
		}
		return quotaPrint(cmd, n)
	}
	return cmd
}

func quotaSet() *cobra.Command {
	var limit, foreign int64
	cmd := &cobra.Command{
		Use:   "set NODE",
		Short: "Set a node's limit or foreign attachments; --limit adds a node that is not there",
		Args:  cobra.ExactArgs(1),
	}
	control := quotaControlFlag(cmd)
	cmd.Flags().Int64Var(&limit, "limit", 0, "how many volumes may be attached, foreign ones included")
	cmd.Flags().Int64Var(&foreign, "foreign", 0, "how many attachments Kubernetes did not make")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, node := cmd.Context(), args[0]
		var change quota.NodeChange
		if cmd.Flags().Changed("limit") {
			change.Limit = &limit
		}
		if cmd.Flags().Changed("foreign") {
			change.Foreign = &foreign
		}
		if change == (quota.NodeChange{}) {
			return usageError{errors.New("quota set: nothing to set: give --limit, --foreign or both")}
		}
		err := control().ChangeNode(ctx, node, change)
		var refused *quota.ControlError
		if errors.As(err, &refused) && refused.Status == http.StatusNotFound && change.Limit != nil {
			err = control().AddNode(ctx, node, quota.NodeConfig{Limit: limit, Foreign: foreign})
		}
		return quotaError(err)
	}
	return cmd
}

func quotaVolume() *cobra.Command {
	var to quota.VolumeConfig
	var remove bool
	cmd := &cobra.Command{
		Use:   "volume VOLUME",
		Short: "Add, change or remove a volume; only known volumes can be attached",
		Args:  cobra.ExactArgs(1),
	}
	control := quotaControlFlag(cmd)
	cmd.Flags().StringVar(&to.Zone, "zone", "", "zone the volume is in (default: fits every node)")
	cmd.Flags().StringVar(&to.Secret, "secret", "", "secret that attaching asks for (default: none)")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove it instead")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if remove && to != (quota.VolumeConfig{}) {
			return usageError{errors.New("quota volume: --remove goes with neither --zone nor --secret: leave them out")}
		}
		if remove {
			return quotaError(control().RemoveVolume(cmd.Context(), args[0]))
		}
		return quotaError(control().AddVolume(cmd.Context(), args[0], to))
	}
	return cmd
}

func quotaFault() *cobra.Command {
	var f quota.Fault
	var operations []string
	cmd := &cobra.Command{
		Use:   "fault MODE [NODE...]",
		Short: "Make the backend fail for some nodes, or for all",
		Long:  fmt.Sprintf("Make the backend fail for some nodes, or for all.\n\nMODE is one of %s. huge, negative and stale mislead queries; wrong-zone refuses attaches; no-answer does what it is asked and does not say so.", quotaNames(quota.Modes)),
		Args:  cobra.MinimumNArgs(1),
	}
	control := quotaControlFlag(cmd)
	cmd.Flags().IntVar(&f.Status, "status", 0, "what mode error answers, 500 to 599 (default 503)")
	cmd.Flags().DurationVar((*time.Duration)(&f.Delay), "delay", 0, "what mode slow waits before it answers, such as 3s")
	cmd.Flags().StringSliceVar(&operations, "operations", nil, "which calls fail: "+quotaNames(quota.Operations)+" (default all that the mode is about)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.Mode, f.Nodes = quota.Mode(args[0]), args[1:]
		for _, op := range operations {
			f.Operations = append(f.Operations, quota.Operation(op))
		}
		return quotaError(control().Inject(cmd.Context(), f))
	}
	return cmd
}

func quotaHeal() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "heal [NODE...]",
		Short: "End the faults of some nodes, or of all",
		Args:  cobra.ArbitraryArgs,
	}
	control := quotaControlFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return quotaError(control().Heal(cmd.Context(), args...))
	}
	return cmd
}

func quotaState() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Print everything that the backend knows",
		Args:  cobra.NoArgs,
	}
	control := quotaControlFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := control().State(cmd.Context())
		if err != nil {
			return quotaError(err)
		}
		return quotaPrint(cmd, st)
	}
	return cmd
}

// quotaError marks what the backend refused as bad input, and a backend that cannot be reached as a failure of the environment.
func quotaError(err error) error {
	var refused *quota.ControlError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return usageError{err}
	}
	return &cluster.EnvironmentError{Op: "reach the quota backend", Err: err, Remedy: "start one with: headroom quota serve, or give --control"}
}

func quotaPrint(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func quotaNames[T ~string](list []T) string {
	s := make([]string, 0, len(list))
	for _, v := range list {
		s = append(s, string(v))
	}
	return strings.Join(s, ", ")
}
