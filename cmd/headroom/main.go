// Command headroom tests CSI attach capacity on Kubernetes (KEP-4876) end to end, on real components.
//
// Exit codes: 0 all held; 1 a requirement or an invariant is violated; 2 bad usage or input; 3 the environment failed; 4 inconclusive.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/report"
	"headroom/e2e/suite"
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends the program with a code of its own; an error of nil prints nothing.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// once is how long further signals count as the first: a shell or a supervisor may send one to the process and to its group.
const once = time.Second

// interruptible ends with the first signal that asks for it, which lets a run heal and collect what it has; a later one ends the process at once.
func interruptible() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(once, stop) })
	return ctx, stop
}

func main() {
	entry.Dispatch()
	suite.Dispatch()
	ctx, stop := interruptible()
	defer stop()
	err := rootCommand().ExecuteContext(ctx)
	code := exitCode(err)
	if err != nil && !isSilent(err) {
		fmt.Fprintf(os.Stderr, "headroom: %s\n", report.Visible(err.Error())) // it may quote files and drivers
	}
	os.Exit(code)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "headroom",
		Short: "Conformance and chaos tests for CSI attach capacity on Kubernetes (KEP-4876)",
		Long: "Headroom runs real Kubernetes components, a CSI driver and a cloud whose quota changes, and judges what happened.\n\n" +
			"Exit codes: 0 all held; 1 violated; 2 bad usage or input; 3 the environment failed; 4 inconclusive.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\n  see: %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(runCommand(), replayCommand(), chaosCommand(), shrinkCommand(), mutantsCommand(), coverageCommand(), matrixCommand(), upgradeCommand(), checkCommand(), reportCommand(),
		explainCommand(), upCommand(), downCommand(), doctorCommand(), binariesCommand(), quotaCommand(), driverCommand(), driversCommand(),
		nodeImageCommand(), preflightCommand())
	return root
}

// noArguments refuses what is not a subcommand, with what there is.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("unknown command or argument %q\n  see: %s --help", args[0], cmd.CommandPath())}
}

// exitCode is the program's answer to err.
func exitCode(err error) int {
	var (
		exit   exitError
		usage  usageError
		input  *cluster.InputError
		env    *cluster.EnvironmentError
		driver *cluster.DriverError
		never  *cluster.UnsupportedError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage), errors.As(err, &input), errors.As(err, &never):
		return 2
	case errors.As(err, &driver):
		return 1
	case errors.As(err, &env), errors.Is(err, context.Canceled):
		return 3
	}
	return 3 // whatever is not known to be the user's or the product's is the harness's
}

func isSilent(err error) bool {
	var exit exitError
	return errors.As(err, &exit) && exit.error == nil
}

// say writes to a terminal or file that a person reads; a failure to write is not worth ending the program for.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
