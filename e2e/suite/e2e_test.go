package suite

import (
	"os"
	"testing"

	"headroom/e2e/framework/entry"
)

func TestMain(m *testing.M) {
	entry.Dispatch()
	Flags()
	os.Exit(m.Run())
}

// TestE2E is the entry of `go test ./e2e/suite` and `ginkgo -p ./e2e/suite`.
func TestE2E(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs all specs on a cluster of real components, which takes minutes")
	}
	Run(t)
}
