package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/preflight"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/versions"
)

// preflightOutputs are the forms in which a preflight is printed.
var preflightOutputs = []string{"table", "json"}

func preflightCommand() *cobra.Command {
	var kubeconfig, kubecontext, to, attacher, output string
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Say of each CSI driver of a live cluster whether an upgrade is safe for its attach capacity; only reads",
		Long: `Looks at a live cluster, which it does not change: versions and feature gates, external-attachers, periods, counts, who wrote them.
Exit codes: 0 go; 1 no-go; 2 bad usage; 3 the cluster cannot be reached; 4 something that matters could not be found out.`,
		Example: `  headroom preflight --kubeconfig ~/.kube/config --to 1.36`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := preflightOptions(to, attacher)
			if err != nil {
				return err
			}
			if !slices.Contains(preflightOutputs, output) {
				return usageError{fmt.Errorf("--output: want table or json, got %q", output)}
			}
			source, err := liveCluster(kubeconfig, kubecontext)
			if err != nil {
				return err
			}
			facts, err := preflight.Gather(cmd.Context(), source)
			if err != nil {
				return cluster.Environment("look at the cluster", err)
			}
			result, err := preflight.Judge(facts, o)
			if err != nil {
				return usageError{fmt.Errorf("--to: %w", err)}
			}
			return printPreflight(cmd, result, output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&kubecontext, "context", "", "context of the kubeconfig (default its current one)")
	f.StringVar(&to, "to", "", "Kubernetes version to upgrade to, such as 1.36 (default the cluster as it is)")
	f.StringVar(&attacher, "attacher", "", "external-attacher version of drivers for which no pod shows one, such as 4.12")
	f.StringVarP(&output, "output", "o", preflightOutputs[0], "what to print: "+strings.Join(preflightOutputs, ", "))
	complete(cmd, "output", preflightOutputs...)
	completeWith(cmd, "to", completeVersions)
	return cmd
}

func preflightOptions(to, attacher string) (o preflight.Options, err error) {
	if to != "" {
		r, err := versions.Embedded().Find(to)
		if err != nil {
			return o, usageError{fmt.Errorf("--to: %w", err)}
		}
		o.To = r.Version
	}
	if attacher != "" {
		a, err := versions.Embedded().FindAttacher(attacher)
		if err != nil {
			return o, usageError{fmt.Errorf("--attacher: %w", err)}
		}
		o.Attacher = a.Version
	}
	return o, nil
}

// liveCluster reaches the cluster of a kubeconfig. A kubeconfig that leads nowhere is the user's mistake.
func liveCluster(path, kubecontext string) (preflight.Source, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return preflight.Source{}, usageError{fmt.Errorf("--kubeconfig: %w", err)}
		}
		rules.ExplicitPath = path
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubecontext}).ClientConfig()
	if err != nil {
		return preflight.Source{}, usageError{fmt.Errorf("kubeconfig: %w; name one with --kubeconfig", err)}
	}
	config.QPS = -1 // a read for each node, one after the other
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return preflight.Source{}, usageError{fmt.Errorf("kubeconfig: %w", err)}
	}
	return preflight.Source{Client: client, Get: func(ctx context.Context, path string) ([]byte, error) {
		return client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	}}, nil
}

func printPreflight(cmd *cobra.Command, r preflight.Result, output string) error {
	out := cmd.OutOrStdout()
	var err error
	if output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = preflight.Table(out, r)
	}
	if err != nil {
		return cluster.Environment("print the preflight", err)
	}
	code, known := map[preflight.Answer]int{
		preflight.Go: report.ExitHeld, preflight.AnswerNo: report.ExitViolated, preflight.AnswerOpen: report.ExitInconclusive,
	}[r.Safe]
	switch {
	case !known:
		return errors.New("no answer")
	case code != report.ExitHeld:
		return exitError{code: code}
	}
	return nil
}
