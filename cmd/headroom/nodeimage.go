package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster/kind/nodeimage"
	"headroom/e2e/framework/versions"
)

func nodeImageCommand() *cobra.Command {
	var release, cache string
	var from binaries.Origin
	cmd := &cobra.Command{
		Use:   "node-image",
		Short: "Assemble the image of a kind cluster's nodes, without a registry, and print its name",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := versions.Embedded().Find(release)
			if err != nil {
				return usageError{fmt.Errorf("--kubernetes: %w", err)}
			}
			if err := from.Check(); err != nil {
				return usageError{err}
			}
			ref, err := nodeimage.Ensure(cmd.Context(), nodeimage.Options{Kubernetes: r.Version, Cache: cache, From: from, Out: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			say(cmd.OutOrStdout(), "%s\n", ref)
			return nil
		},
	}
	cmd.Flags().StringVar(&release, "kubernetes", versions.Default().Version.String(), "Kubernetes version of the node")
	cmd.Flags().StringVar(&cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	originFlags(cmd.Flags(), &from)
	return cmd
}
