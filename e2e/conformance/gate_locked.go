package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

const featureGate = versions.MutableCSINodeAllocatableCount

func init() {
	for component, boundary := range map[string]history.Boundary{"kube-apiserver": history.APIServer, "kubelet": history.Kubelet} {
		run.Register(run.Requirement{
			ID:       "gate-locked-" + component,
			Claim:    "A " + component + " that is told " + featureGate + "=false says that the gate is locked and exits: rolling the feature back takes an older binary.",
			Source:   "KEP-4876, GA; kubernetes pkg/features/kube_features.go, LockToDefault from 1.36",
			Boundary: boundary,
			Setup:    run.Setup{},
			Unless:   func(h history.Header) string { return notLocked(h.Versions[component]) },
			Test:     func(ctx context.Context, b *run.Bench) { gateLocked(ctx, b, component) },
		})
	}
}

// notLocked says why a component of that version may be told to turn the gate off; "" where it may not.
func notLocked(version string) string {
	row, err := versions.Lookup(versions.Version(version))
	switch {
	case err != nil:
		return err.Error()
	case !row.Gate(featureGate).Locked:
		return fmt.Sprintf("in %s the gate %s is not locked", version, featureGate)
	}
	return ""
}

// refuseWithin is how soon a component must have said no.
const refuseWithin = 20 * time.Second

func gateLocked(ctx context.Context, b *run.Bench, component string) {
	path := b.Binaries[component]
	if path == "" {
		b.Check(&cluster.UnsupportedError{Provider: b.Header.Provider, Why: fmt.Sprintf("the nodes' image is not the run's own, which so has no executable of %s", component)})
	}
	ctx, cancel := context.WithTimeout(ctx, refuseWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--feature-gates", featureGate+"=false")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		b.Check(fmt.Errorf("%s with %s=false: want it to exit, got it running after %s", component, featureGate, refuseWithin))
	case err == nil:
		b.Check(fmt.Errorf("%s with %s=false: want it to fail, got exit status 0", component, featureGate))
	case !errors.As(err, &exit):
		b.Check(cluster.Environment("run "+component, err))
	case !strings.Contains(out.String(), featureGate) || !strings.Contains(out.String(), "locked"):
		b.Check(fmt.Errorf("%s with %s=false: want it to say that the gate is locked, got %s: %.300s", component, featureGate, err, out.String()))
	}
}
