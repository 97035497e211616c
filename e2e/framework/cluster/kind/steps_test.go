package kind

import (
	"bytes"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster/kind/engine"
)

func TestStepsTellControlPlaneAndJoinApart(t *testing.T) {
	var out bytes.Buffer
	s := newSteps(&out)
	for _, name := range []string{"Preparing nodes 📦 📦", "Writing configuration 📜", "Starting control-plane 🕹️", "Joining worker nodes 🚜"} {
		s.V(0).Infof(" • %s  ...\n", name)
		s.V(1).Infof("what only a verbose log has: ✓ %s", name)
		s.V(0).Infof(" ✓ %s\n", name)
	}
	s.Warnf("WARNING: Overriding docker network due to %s", engine.NetworkEnv)
	s.Warn("the disk is slow")
	got := strings.Fields(out.String())
	if want := "node containers 0.0s control plane 0.0s workers joined 0.0s"; strings.Join(got, " ") != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if s.warned() != "the disk is slow" {
		t.Errorf("want the one warning that may matter, got %q", s.warned())
	}
}
