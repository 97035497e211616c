package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headroom/fixtures/quota"
)

// undocumented lists the commands and flags that text does not name.
func undocumented(cmd *cobra.Command, text string) (missing []string) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !strings.Contains(text, "--"+f.Name) {
			missing = append(missing, cmd.CommandPath()+" --"+f.Name)
		}
	})
	for _, c := range cmd.Commands() {
		if !strings.Contains(text, c.Name()) {
			missing = append(missing, c.CommandPath())
		}
		missing = append(missing, undocumented(c, text)...)
	}
	return missing
}

func TestDocsNameEveryCommandAndFlag(t *testing.T) {
	text, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range undocumented(rootCommand(), string(text)) {
		t.Errorf("docs/commands.md does not name %q", name)
	}
	for _, mode := range quota.Modes {
		if !strings.Contains(string(text), "`"+string(mode)+"`") {
			t.Errorf("docs/commands.md does not name fault %q", mode)
		}
	}
	without := strings.NewReplacer("doctor", "", "--keep", "").Replace(string(text))
	if got := strings.Join(undocumented(rootCommand(), without), ", "); got != "headroom doctor, headroom run --keep" {
		t.Errorf("without doctor and --keep: want both missed, got %q", got)
	}
}
