package conformance

import (
	"strings"
	"testing"
)

// TestOwnNodesNamesThem: on some providers a bench's nodes have names that say nothing of the bench.
func TestOwnNodesNamesThem(t *testing.T) {
	if got, want := ownNodes([]string{"p1-3-new", "r-worker"}), `request.name in ["p1-3-new","r-worker"]`; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestReadGuard(t *testing.T) {
	policy, binding, err := readGuard()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(policy.Name, "csinode") || binding.Spec.PolicyName != policy.Name {
		t.Errorf("want the guard and its binding, got %q and a binding to %q", policy.Name, binding.Spec.PolicyName)
	}
}
