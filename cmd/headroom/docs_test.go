package main

import (
	"os"
	"regexp"
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

// valueName is what backquotes in a flag's usage are for: pflag shows the word between them as the name of the flag's value.
var valueName = regexp.MustCompile(`^[^` + "`" + `]*` + "`[A-Za-z][A-Za-z0-9:=/-]*`" + `[^` + "`" + `]*$`)

// misquoted lists the flags whose usage has a backquote that is not for the name of their value.
func misquoted(cmd *cobra.Command) (wrong []string) {
	see := func(f *pflag.Flag) {
		if strings.Contains(f.Usage, "`") && !valueName.MatchString(f.Usage) {
			wrong = append(wrong, cmd.CommandPath()+" --"+f.Name)
		}
	}
	cmd.LocalFlags().VisitAll(see)
	for _, c := range cmd.Commands() {
		wrong = append(wrong, misquoted(c)...)
	}
	return wrong
}

func TestUsagesQuoteOnlyTheNameOfTheValue(t *testing.T) {
	for _, name := range misquoted(rootCommand()) {
		t.Errorf("%s: want no backquotes in its usage: pflag takes what is between them for the name of the value", name)
	}
	for usage, right := range map[string]bool{
		"definition: a name": true, "a `NAME` of a driver": true, "a name from 'headroom drivers'": true,
		"a name from `headroom drivers`": false, "one of `a` and `b`": false, "the key ` itself": false, "``": false,
	} {
		cmd := &cobra.Command{Use: "x"}
		cmd.Flags().String("f", "", usage)
		if got := len(misquoted(cmd)) == 0; got != right {
			t.Errorf("usage %q: want it right: %t, got %t", usage, right, got)
		}
	}
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
	_, after, _ := strings.Cut(string(text), "`--operations` narrows a fault to some of ")
	listed, _, _ := strings.Cut(after, ".")
	for _, op := range quota.Operations {
		if !strings.Contains(listed, "`"+string(op)+"`") {
			t.Errorf("docs/commands.md does not name %q among those of --operations: %q", op, listed)
		}
	}
	if got := strings.Count(listed, "`"); got != 2*len(quota.Operations) {
		t.Errorf("docs/commands.md: want %q for --operations and nothing else, got %q", quota.Operations, listed)
	}
	without := strings.NewReplacer("doctor", "", "--keep", "").Replace(string(text))
	if got := strings.Join(undocumented(rootCommand(), without), ", "); got != "headroom doctor, headroom run --keep" {
		t.Errorf("without doctor and --keep: want both missed, got %q", got)
	}
}
