package local

import (
	"os"
	"testing"

	"headroom/e2e/framework/entry"
	_ "headroom/fixtures/quota" // the backend is a program of this binary
)

func TestMain(m *testing.M) {
	entry.Dispatch()
	os.Exit(m.Run())
}
