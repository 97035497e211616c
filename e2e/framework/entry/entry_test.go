package entry

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Register("echo", func(args []string) int {
		_, _ = os.Stdout.WriteString(strings.Join(args, ","))
		return 7
	})
	Dispatch()
	os.Exit(m.Run())
}

func TestCommandRunsTheProgramOfThisBinary(t *testing.T) {
	cmd := Command("echo", "a", "--b")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || string(out) != "a,--b" {
		t.Fatalf("want the program's output and exit code 7, got %q (%v)", out, err)
	}
}

func TestUnknownProgramIsAnError(t *testing.T) {
	out, err := Command("nosuch").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), `no program "nosuch"`) {
		t.Fatalf("want exit code 2 and the name, got %q (%v)", out, err)
	}
}

func TestRegisterTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("want a panic")
		}
	}()
	Register("echo", func([]string) int { return 0 })
}
