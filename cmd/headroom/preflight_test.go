package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/preflight"
)

func TestPreflightUsage(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Setenv("HOME", dir)
	for _, c := range []struct{ args, want string }{
		{"--to 1.20", `--to: kubernetes minor release "1.20" is not known`},
		{"--attacher 4.9", `--attacher: external-attacher version "v4.9" is not known`},
		{"--output yaml", `--output: want table or json, got "yaml"`},
		{"--kubeconfig " + filepath.Join(dir, "none"), "--kubeconfig: stat "},
		{"--kubeconfig " + broken, "kubeconfig: "},
		{"--kubeconfig " + broken + " --context other", "kubeconfig: "},
		{"", "name one with --kubeconfig"},
		{"extra", `unknown command or argument "extra"`},
	} {
		cmd := preflightCommand()
		cmd.SetArgs(strings.Fields(c.args))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		if usage := (usageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: want a usage error with %q, got %T: %v", c.args, c.want, err, err)
		}
	}
}

func TestPreflightOfNoCluster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := preflightCommand()
	cmd.SetArgs([]string{"--kubeconfig", path})
	cmd.SetOut(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	if env := (*cluster.EnvironmentError)(nil); !errors.As(err, &env) || exitCode(err) != 3 || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("want an environment error, got %v", err)
	}
}

func TestPreflightExitCodes(t *testing.T) {
	for answer, code := range map[preflight.Answer]int{preflight.Go: 0, preflight.AnswerNo: 1, preflight.AnswerOpen: 4, "": 3} {
		for _, output := range preflightOutputs {
			var out bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetOut(&out)
			if got := exitCode(printPreflight(cmd, preflight.Result{Server: "v1.36.3", To: "v1.36.3", Safe: answer}, output)); got != code || out.Len() == 0 {
				t.Errorf("%q as %s: want exit code %d and some text, got %d, %q", answer, output, code, got, out.String())
			}
		}
	}
}
