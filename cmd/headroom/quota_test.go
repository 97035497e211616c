package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

// runQuota runs `headroom quota args...`.
func runQuota(ctx context.Context, args ...string) (string, error) {
	cmd := quotaCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// TestQuotaByHand walks through a session against a backend that the serve command runs.
func TestQuotaByHand(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	dir := t.TempDir()
	control := "unix:" + dir + "/control"
	ended := make(chan error, 1)
	started, lines := io.Pipe()
	go func() {
		cmd := quotaCommand()
		cmd.SetOut(lines)
		cmd.SetArgs([]string{"serve", "--listen", "unix:" + dir + "/data", "--control", control, "--events", dir})
		err := cmd.ExecuteContext(ctx)
		ended <- errors.Join(err, lines.Close())
	}()
	line := make([]byte, 1<<10)
	n, err := started.Read(line)
	if err != nil || !strings.Contains(string(line[:n]), "control at "+control) {
		t.Fatalf("serve: want the addresses, got %q, error %v", line[:n], err)
	}
	for _, tt := range []struct {
		args string
		says string // in the output, or in the error
		bad  bool   // wants a usageError
	}{
		{"get n1", `no node "n1"`, true},
		{"set n1 --foreign 2", "add it with PUT first", true},
		{"set n1 --limit 5", "", false},
		{"set n1 --foreign 2", "", false},
		{"get n1", `"limit": 5`, false},
		{"get n1", `"foreign": 2`, false},
		{"get n1", `"generation": 2`, false},
		{"set n1", "nothing to set", true},
		{"set n1 --limit many", "invalid argument", true},
		{"set n1 --foreign -1", "foreign", true},
		{"set", "accepts 1 arg", true},
		{"volume v1 --zone a --secret s", "", false},
		{"volume v1 --remove --zone a", "--remove goes with", true},
		{"state", `"zone": "a"`, false},
		{"volume v1 --remove", "", false},
		{"state", `"volumes": {}`, false},
		{"fault error n1 --status 507 --operations get,list", "", false},
		{"get n1", `"status": 507`, false},
		{"fault error n1 --operations put", "operations[0]", true},
		{"fault sleepy", "mode", true},
		{"fault slow", "delay", true},
		{"fault slow n1 --delay 3s", "", false},
		{"get n1", `"delay": "3s"`, false},
		{"fault hang --delay 3s", "delay", true},
		{"fault huge n1 --operations attach", "operations[0]", true},
		{"fault wrong-zone n1", "", false},
		{"get n1", `"attach"`, false},
		{"fault hang n9", `no node "n9"`, true},
		{"heal n1", "", false},
		{"get n1", `"hanging": 0`, false},
		{"", "say what to do", true},
		{"grow", "unknown command", true},
		{"state --contrl x", "unknown flag", true},
	} {
		args := strings.Fields(tt.args)
		if len(args) > 0 && !strings.HasPrefix(tt.args, "grow") && !strings.Contains(tt.args, "contrl") {
			args = append(args, "--control", control)
		}
		out, err := runQuota(ctx, args...)
		var usage usageError
		if errors.As(err, &usage) != tt.bad || !tt.bad && err != nil {
			t.Errorf("quota %s: want a usage error: %t, got %v", tt.args, tt.bad, err)
		}
		if err != nil {
			out = err.Error()
		}
		if !strings.Contains(out, tt.says) {
			t.Errorf("quota %s: want %q, got %s", tt.args, tt.says, out)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("serve: want an orderly end, got %v", err)
	}
}

// TestQuotaWithoutBackend shows that a backend that is not there is the environment's failure, and not bad usage.
func TestQuotaWithoutBackend(t *testing.T) {
	for _, args := range [][]string{{"state"}, {"get", "n1"}, {"set", "n1", "--limit", "1"}, {"heal"}, {"fault", "hang"}, {"volume", "v1"}} {
		_, err := runQuota(t.Context(), append(args, "--control", "unix:"+t.TempDir()+"/none")...)
		var env *cluster.EnvironmentError
		if !errors.As(err, &env) || !strings.Contains(err.Error(), "headroom quota serve") {
			t.Errorf("%q: want an environment error with a remedy, got %v", args, err)
		}
	}
	_, err := runQuota(t.Context(), "serve", "--listen", "nowhere", "--control", "127.0.0.1:0")
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) {
		t.Errorf("serve at a bad address: want an environment error, got %v", err)
	}
	_, err = runQuota(t.Context(), "serve", "--run", "")
	var usage usageError
	if !errors.As(err, &usage) {
		t.Errorf("serve with an empty run: want a usage error, got %v", err)
	}
}
