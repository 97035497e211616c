package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster/kind/nodeimage"
	"headroom/e2e/framework/versions"
)

func nodeImageCommand() *cobra.Command {
	var release, cache string
	cmd := &cobra.Command{
		Use:   "node-image",
		Short: "Assemble the image of a kind cluster's nodes, without a registry, and print its name",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := versions.Parse(release)
			if err == nil {
				_, err = versions.Lookup(v)
			}
			if err != nil {
				return usageError{fmt.Errorf("--kubernetes: %w", err)}
			}
			ref, err := nodeimage.Ensure(cmd.Context(), nodeimage.Options{Kubernetes: v, Cache: cache, Out: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			say(cmd.OutOrStdout(), "%s\n", ref)
			return nil
		},
	}
	cmd.Flags().StringVar(&release, "kubernetes", versions.Default().Version.String(), "Kubernetes version of the node")
	cmd.Flags().StringVar(&cache, "cache", "", "cache of component binaries (default $XDG_CACHE_HOME/headroom)")
	return cmd
}
