package drivercheck

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"headroom/drivers/personas"
)

var update = flag.Bool("update", false, "write docs/driver-checks.md anew")

const docsFile = "../../../docs/driver-checks.md"

const docsHead = `# What driver check judges

` + "`headroom driver check`" + ` puts these claims to the test, each in several cases. A core check must hold in every case that applies to the driver. A persona is the
reference driver with one mistake: each is caught by the checks it is named at and by no other. What no persona shows is shown to fail by fakes
(` + "`e2e/framework/drivercheck/fake_test.go`" + `). Ids that are also names of [invariants](invariants.md) make the same claim there, of a driver in a cluster.
Generated: ` + "`go test ./e2e/framework/drivercheck -run TestDocs -update`" + ` writes this file.

`

// TestDocs holds docs/driver-checks.md to the code.
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString(docsHead)
	b.WriteString("| check | claim | cases | source | caught by it |\n|---|---|---|---|---|\n")
	for _, c := range Checks() {
		kind := ""
		if !c.Core {
			kind = " (extended)"
		}
		var caught []string
		for _, name := range slices.Sorted(maps.Keys(caughtBy)) {
			if slices.Contains(caughtBy[name], c.ID) {
				caught = append(caught, "`"+name+"`")
			}
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s | %s |\n", c.ID, kind, c.Claim, strings.Join(c.Cases, "; "), c.Source, strings.Join(caught, ", "))
	}
	b.WriteString("\n## What needs a cluster\n\n| persona | does | why no single driver shows it |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(needCluster)) {
		p, err := personas.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, p.Doc, needCluster[name])
	}
	if *update {
		if err := os.WriteFile(docsFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(docsFile); err != nil || string(got) != b.String() {
		t.Errorf("docs/driver-checks.md is not what the code says (%v): run go test ./e2e/framework/drivercheck -run TestDocs -update", err)
	}
}
