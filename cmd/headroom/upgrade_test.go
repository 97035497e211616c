package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

func upgradeOf(t *testing.T, args string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := upgradeCommand()
	cmd.SetArgs(strings.Fields(args))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestUpgradeUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"", "--from: want the Kubernetes version to begin with"},
		{"--from 1.20", `--from: kubernetes minor release "1.20" is not known; known: v1.32.13`},
		{"--from 1.35 --to newest", `--to: version "newest": want MAJOR.MINOR.PATCH`},
		{"--from 1.36 --to 1.34", "upgrade from v1.36.3 to v1.34.4: want a newer version to upgrade to"},
		{"--from 1.36 --to 1.36", "want a newer version to upgrade to"},
		{"--from 1.32 --to 1.37", "kubelets v1.32.13 would be more than 3 minor versions behind; upgrade to v1.35.4 first"},
		{"--from 1.35 --nodes 0", "0 nodes: want 1 to 50"},
		{"--from 1.35 --canaries 3", "3 canary nodes: want 1 to the number of nodes, 2"},
		{"--from 1.35 --bake 0s", "bake for 0s: want more than 0s"},
		{"--from 1.35 --rollback-after 0", "--rollback-after 0: want the number of a step, 1 or more"},
		{"--from 1.35 --rollback-after 99", "rollback after step 99: the upgrade has"},
		{"--from 1.35 --no-rollback --rollback-after 3", "--no-rollback: leave --rollback-after and --again out"},
		{"--from 1.35 --seed 0", "--seed 0: want 1 or more"},
		{"--from 1.35 --driver nosuch", `--driver: no driver "nosuch"`},
		{"--from 1.35 --new-driver nosuch", `no driver "nosuch"`},
		{"--from 1.35 --new-driver hostpath", `its new release "hostpath": false; want the same of both`},
		{"--from 1.35 --gate kubelet/MutableCSINodeAllocatableCount=false", "kubelet v1.36.3 has MutableCSINodeAllocatableCount locked to true and would exit"},
		{"--from 1.32 --to 1.34 --gate kubelet/MutableCSINodeAllocatableCount=true", `kubelet v1.32.13 has no feature gate "MutableCSINodeAllocatableCount"`},
		{"--from 1.34 --gate scheduler/X=true", `component "scheduler" takes no feature gates`},
		{"--from 1.35 --binaries mirror", "it needs --mirror"},
		{"--from 1.35 --binaries cache --cache nowhere", "kubernetes v1.35.4: kube-apiserver v1.35.4 is missing in the cache, and --binaries cache makes nothing"},
		{"extra", `unknown command or argument "extra"`},
	} {
		_, err := upgradeOf(t, c.args)
		var usage usageError
		var input *cluster.InputError
		if !errors.As(err, &usage) && !errors.As(err, &input) || exitCode(err) != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want exit code 2 and %q, got %T: %v", c.args, c.want, err, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("bad input: want nothing started and nothing left, got %v (%v)", left, err)
	}
}

func TestUpgradePlanOnly(t *testing.T) {
	for args, want := range map[string]string{
		"--from 1.34 --to 1.36 --seed 5 --plan-only":                                                "upgrade again  bake 30s",
		"--from 1.34 --to 1.36 --seed 5 --no-rollback --plan-only":                                  "19  upgrade        bake 30s\n",
		"--from 1.34 --to 1.36 --seed 5 --again=false --rollback-after 4 --plan-only":               "swap kube-apiserver v1.36.3 -> v1.35.4  (unsupported: no rollback of a minor version of the control plane)",
		"--from 1.36 --to 1.37 --seed 5 --nodes 3 --canaries 2 --bake 1m --no-rollback --plan-only": " 1  upgrade        swap csi-attacher v4.12.0 -> v4.13.0",
	} {
		got, err := upgradeOf(t, args)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: want %q, got (%v)\n%s", args, want, err, got)
		}
		if again, err := upgradeOf(t, args); err != nil || again != got {
			t.Errorf("%s: want the same plan twice, got (%v)\n%s", args, err, again)
		}
	}
}
