package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/drivercheck"
	"headroom/fixtures/quota"
)

// defaultDefinition is the file that driver init writes and driver lint reads.
const defaultDefinition = "driver.yaml"

func driverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "driver",
		Short: "Write, lint and check the definition of your own driver, without a cluster",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("driver: say what to do: init, lint or check")}
		},
	}
	cmd.AddCommand(driverInit(), driverLint(), driverCheck())
	return cmd
}

// definitionFile is the one argument of commands about a definition's file.
func definitionFile(cmd *cobra.Command, args []string) error {
	if err := cobra.MaximumNArgs(1)(cmd, args); err != nil {
		return usageError{fmt.Errorf("%s: %w\n  see: %s --help", cmd.CommandPath(), err, cmd.CommandPath())}
	}
	return nil
}

func fileOf(args []string) string {
	if len(args) == 0 {
		return defaultDefinition
	}
	return args[0]
}

func driverInit() *cobra.Command {
	name := "my-driver"
	cmd := &cobra.Command{
		Use:     "init [FILE]",
		Short:   "Write a definition to start from, with comments (default " + defaultDefinition + ")",
		Example: "  headroom driver init --name fast-disk fast-disk.yaml",
		Args:    definitionFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := drivers.Template(name)
			if err != nil {
				return usageError{fmt.Errorf("--name: %w", err)}
			}
			path := fileOf(args)
			if err := writeNew(path, text); err != nil {
				return err
			}
			say(cmd.OutOrStdout(), "%s\nfill it in, then: headroom driver lint %s\n", path, path)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", name, "what reports call the driver: lower-case letters, digits and dashes")
	return cmd
}

// writeNew writes a file that is not there yet.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return usageError{fmt.Errorf("%s is there already\n  remedy: give another name, or remove it", path)}
	case err != nil:
		return usageError{fmt.Errorf("%w\n  remedy: name a file in a folder that can be written", err)}
	}
	_, err = f.Write(text)
	return cluster.Environment("write "+path, errors.Join(err, f.Close()))
}

func driverLint() *cobra.Command {
	return &cobra.Command{
		Use:   "lint [FILE]",
		Short: "Say what is wrong with a definition, and which checks it gives up (default " + defaultDefinition + ")",
		Args:  definitionFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := fileOf(args)
			notes, err := drivers.Lint(path)
			if err != nil {
				return usageError{err}
			}
			for _, note := range notes {
				say(cmd.OutOrStdout(), "note: %s\n", note)
			}
			say(cmd.OutOrStdout(), "%s: nothing is wrong\n", path)
			return nil
		},
	}
}

func driverCheck() *cobra.Command {
	var o drivercheck.Options
	var definition, control, output string
	var list bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Judge a driver without a cluster, in seconds: limit, attach codes, idempotence, outages",
		Long: `Calls a driver over CSI as the kubelet and the external-attacher do, and changes what it sees of its limit meanwhile.

With --driver alone, the driver is started from its definition, beside a quota backend of its own. With --socket, one that runs is checked; what cannot be
caused on it from outside comes from --quota, the control interface of the backend that it asks (headroom quota serve), or from causes in its definition.
What nobody can cause is skipped, with the reason.

The driver's node must have nothing attached, and nobody else may use the driver meanwhile. What is changed is put back.

Exit codes
  0  all core checks held
  1  a check is violated, or the driver does not come up
  2  bad usage or input
  3  environment error: the socket is not there, or what answers is no CSI driver
  4  partial: nothing is violated, and a core check was not put to the test

With -o json or yaml there is a document also of a driver that does not come up or is not there; only exit code 2 comes without one.`,
		Example: `  headroom driver check --driver ./my-driver.yaml
  headroom driver check --socket unix:///run/my/csi.sock --driver ./my-driver.yaml --quota 127.0.0.1:8971
  headroom driver check --socket unix:///run/my/csi.sock -o json | jq '.checks[] | select(.status != "Held")'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := knownOutput(cmd, output); err != nil {
				return err
			}
			if list {
				return listChecks(cmd.OutOrStdout())
			}
			if cmd.Flags().Changed("wait") && o.Wait <= 0 {
				return usageError{fmt.Errorf("--wait %s: want more than 0s, such as 30s", o.Wait)}
			}
			if o.Scale == 0 {
				return usageError{fmt.Errorf("--timeout-scale 0: want 1 or more, such as 20")}
			}
			if cmd.Flags().Changed("quota") {
				o.Quota = quota.NewControl(control, nil)
			}
			if definition != "" {
				def, err := drivers.Load(definition)
				if err == nil && o.Socket == "" && drivers.IsFile(definition) { // its commands are to be run here
					err = def.LintProcesses()
				}
				if err == nil {
					err = def.LintCauses(o.Socket != "")
				}
				if err != nil {
					return usageError{err}
				}
				o.Definition = def
			}
			o.Out = cmd.ErrOrStderr()
			return checkDriver(cmd, o, output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&definition, "driver", "", "definition: a name from 'headroom drivers', or a path to a .yaml file")
	f.StringVar(&o.Socket, "socket", "", "unix:///path of a running driver's Node service (default: start the driver from --driver)")
	f.StringVar(&o.Controller, "controller", "", "unix:///path of its Controller service (default that of --socket)")
	f.StringVar(&control, "quota", "", "control interface of the quota backend that it asks: URL, host:port or unix:/path")
	f.StringSliceVar(&o.Volumes, "volume", nil, "volumes that exist and are attached nowhere, one more than its limit (default: of the backend, or made with CreateVolume)")
	f.DurationVar(&o.Wait, "wait", drivercheck.DefaultWait, "longest that one case may wait for what the driver declares, such as a step")
	f.Float64Var(&o.Scale, "timeout-scale", 1, "stretch the deadlines of calls and starts, for a driver under a debugger")
	f.BoolVar(&list, "list", false, "list the checks instead: id, claim, source, cases")
	outputFlag(cmd, &output)
	completeWith(cmd, "driver", completeDrivers)
	return cmd
}

func checkDriver(cmd *cobra.Command, o drivercheck.Options, output string) error {
	began := time.Now()
	r, err := drivercheck.Run(cmd.Context(), o)
	var input *cluster.InputError
	switch people := output == "table" || output == "wide"; {
	case r.Kind == "" && (people || errors.As(err, &input)): // the error says it all
		return err
	case r.Kind == "": // a program that reads the report must find one
		r = drivercheck.NotOpened(o, began, err)
	}
	r.Socket = o.Socket
	printers := map[string]func(io.Writer) error{"table": r.Table, "wide": r.Table, "json": r.JSON, "yaml": r.YAML}
	if e := printers[output](cmd.OutOrStdout()); e != nil {
		return cluster.Environment("print the report", e)
	}
	code := r.ExitCode()
	switch {
	case exitCode(err) == 1: // it did not come up
		return err
	case code == 1:
		return exitError{code: code, error: errors.Join(checkSummary(r), err)}
	case err != nil:
		return err
	case code != 0:
		return exitError{code: code, error: checkSummary(r)}
	}
	return nil
}

// checkSummary says in one line why the exit code is not 0.
func checkSummary(r drivercheck.Report) error {
	if r.Conclusion == drivercheck.Partial {
		return fmt.Errorf("driver %s: partial: a core check was not put to the test", r.Name())
	}
	return fmt.Errorf("driver %s: %d violated", r.Name(), r.Summary.Violated)
}

func listChecks(w io.Writer) error {
	for _, c := range drivercheck.Checks() {
		kind := "core"
		if !c.Core {
			kind = "extended"
		}
		say(w, "%s (%s)\n  %s\n  source: %s\n  cases: %s\n", c.ID, kind, c.Claim, c.Source, strings.Join(c.Cases, "; "))
	}
	return nil
}
