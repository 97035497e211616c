package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/versions"
)

func binariesCommand() *cobra.Command {
	var release, attacher string
	var from binaries.Origin
	options := func(cmd *cobra.Command, components []string) (binaries.Options, error) {
		o := binaries.Options{Components: components, From: from, Out: cmd.ErrOrStderr()}
		known := versions.Default()
		if release != "" {
			var err error
			if known, err = versions.Embedded().Find(release); err != nil {
				return o, usageError{fmt.Errorf("--kubernetes: %w", err)}
			}
		}
		if attacher != "" {
			a, err := versions.Embedded().FindAttacher(attacher)
			if err != nil {
				return o, usageError{fmt.Errorf("--attacher: %w", err)}
			}
			o.Attacher = a.Version
		}
		if err := from.Check(); err != nil {
			return o, usageError{err}
		}
		o.Kubernetes = known.Version
		if _, err := binaries.Select(known, versions.Embedded().Provisioner(), components); err != nil {
			return o, usageError{err}
		}
		return o, nil
	}
	list := func(cmd *cobra.Command, components []string) error {
		o, err := options(cmd, components)
		if err != nil {
			return err
		}
		all, err := binaries.List(cmd.Context(), o)
		if err != nil {
			return err
		}
		return printBinaries(cmd.OutOrStdout(), all)
	}
	provide := func(cmd *cobra.Command, components []string) error {
		o, err := options(cmd, components)
		if err != nil {
			return err
		}
		if _, err := binaries.Ensure(cmd.Context(), o); err != nil {
			return err
		}
		return list(cmd, components)
	}
	root := &cobra.Command{
		Use:   "binaries",
		Short: "Component binaries of the local cluster: what is cached",
		Long: `Component binaries of the local cluster are copied from a mirror, downloaded from the Kubernetes release site, or built from Go
modules, once per machine, and kept in a cache: $HEADROOM_CACHE, else headroom below $XDG_CACHE_HOME, else ~/.cache/headroom.
Without a subcommand, lists them.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: list,
	}
	root.PersistentFlags().StringVar(&release, "kubernetes", "", "Kubernetes version, such as 1.36 or "+versions.Default().Version.String()+" (the default)")
	root.PersistentFlags().StringVar(&attacher, "attacher", "", "external-attacher version, such as 4.11 (default the one that goes with --kubernetes)")
	originFlags(root.PersistentFlags(), &from)
	root.AddCommand(&cobra.Command{
		Use:   "fetch [component...]",
		Short: "Bring what the cache lacks into it, from where --binaries says",
		Example: `  headroom binaries fetch --kubernetes 1.35
  headroom binaries fetch --binaries mirror --mirror /srv/kubernetes kube-apiserver kubelet`,
		RunE: provide,
	}, &cobra.Command{
		Use:   "build [component...]",
		Short: "Build what the cache lacks",
		Example: `  headroom binaries build
  headroom binaries build --kubernetes v1.35.4 kube-apiserver kubelet`,
		RunE: func(cmd *cobra.Command, components []string) error {
			if cmd.Flags().Changed("binaries") && from.Mode != binaries.FromBuild {
				return usageError{fmt.Errorf("--binaries %s: this command builds; see `headroom binaries fetch`", from.Mode)}
			}
			from.Mode = binaries.FromBuild
			return provide(cmd, components)
		},
	}, &cobra.Command{
		Use:   "key [component...]",
		Short: "Print a key for CI caches: it changes when a binary would",
		RunE: func(cmd *cobra.Command, components []string) error {
			o, err := options(cmd, components)
			if err != nil {
				return err
			}
			key, err := binaries.CacheKey(cmd.Context(), o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key)
			return err
		},
	}, &cobra.Command{
		Use:   "verify [component...]",
		Short: "Recompute checksums; remove what is damaged",
		RunE: func(cmd *cobra.Command, components []string) error {
			o, err := options(cmd, components)
			if err != nil {
				return err
			}
			all, err := binaries.Verify(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := printBinaries(cmd.OutOrStdout(), all); err != nil {
				return err
			}
			return damaged(all)
		},
	})
	return root
}

func printBinaries(out io.Writer, all []binaries.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tVERSION\tSTATE\tFROM\tSIZE\tPATH")
	for _, s := range all {
		from, size, path := "-", "-", s.Path
		if s.State == binaries.Cached {
			from, size = s.Source, fmt.Sprintf("%.1f MB", float64(s.Size)/1e6)
		}
		if s.Detail != "" {
			path = s.Detail
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Component.Name, s.Component.Version, s.State, from, size, path)
	}
	return w.Flush()
}

// damaged is an error when a binary was removed by verification.
func damaged(all []binaries.Status) error {
	var names []string
	for _, s := range all {
		if s.State == binaries.Damaged {
			names = append(names, s.Component.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &cluster.EnvironmentError{
		Op:     "verify binaries",
		Err:    fmt.Errorf("damaged and removed from the cache: %q", names),
		Remedy: "headroom binaries fetch",
	}
}
