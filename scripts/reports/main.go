// Command reports plays Headroom on drivers, on versions of Kubernetes, and archives what it reports of each.
//
//	reports [-kubernetes VERSION,...] [-only NAME,...] [-to DIR] [-headroom FILE]
//
// Contract: each play is a `headroom run` of its own, and each that ends with a report on the driver is archived at once, as <name>-<version>.yaml with the
// command that makes it in its first lines, without paths of the machine. A play that is lost, because its driver cannot be built, its components cannot be
// had, or the environment failed twice, takes no other with it, and what was archived before stays. Exit code 0 when all plays were archived, whatever
// their reports say; 1 when some were lost; 2 when used wrongly; 130 when interrupted.
//
// It judges nothing, and it writes no index: `go test ./e2e -run TestArchivedReportsDocs -update` does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"headroom/e2e/framework/report"
	"headroom/e2e/framework/versions"
)

// play is a driver to play on.
type play struct {
	name   string
	driver string
	// program is the make target that builds the driver; "" where it is Headroom's own.
	program string
	flags   []string
	shows   string
}

// deadline bounds a play from within, and still gives a report; limit is for one that does not keep to it.
const (
	deadline = "12m"
	limit    = 20 * time.Minute
	seed     = "1"
)

var plays = []play{
	{name: "steady", driver: "steady", shows: "the reference driver"},
	{name: "hostpath", driver: "hostpath", shows: "csi-driver-host-path's stand-in with its own `--attach-limit`: what a fixed limit can do"},
	{name: "csi-mock", driver: "fixtures/csimock/driver.yaml", program: "csimock", shows: "the mock CSI service of k8s.io/kubernetes"},
	{name: "csi-mock-own", driver: "fixtures/csimock/own.yaml", program: "csimock",
		shows: "the mock CSI service with a limit that is its own affair, `limit: own`"},
	{name: "hostpath-gate", driver: "hostpath-gate", shows: "the stand-in behind the gate's quota: counts that change live; rows on drivers are the gate's"},
	{name: "hostpath-random", driver: "hostpath-random", flags: []string{"--focus", "^(limit-enforced|driver-restart)$"},
		shows: "the stand-in with `--attach-limit=-1`: it promises a random limit and keeps none"},
	{name: "gce-pd", driver: "fixtures/gcepd/driver.yaml", program: "gcepd", flags: []string{"--focus", "^limit-enforced$"},
		shows: "the Compute Engine driver on its fake cloud, which attaches more than the driver reports; see [findings](../findings.md)"},
}

// command is how to play it, without what a repetition does not need.
func (p play) command(v versions.Version) []string {
	return append([]string{"run", "--kubernetes", v.String(), "--driver", p.driver, "--seed", seed, "--deadline", deadline}, p.flags...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(reports(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// archive plays, and keeps what comes of it.
type archive struct {
	headroom, to, runs string
	out                io.Writer
	// fetched are versions whose components are there, built programs of drivers: nil or why not.
	fetched, built map[string]error
}

func reports(ctx context.Context, args []string, out, problems io.Writer) int {
	f := flag.NewFlagSet("reports", flag.ContinueOnError)
	f.SetOutput(problems)
	kubernetes := f.String("kubernetes", versions.Default().Version.String(), "versions of Kubernetes, such as 1.34,1.36")
	only := f.String("only", "", "names of plays (default all)")
	a := &archive{out: out, fetched: map[string]error{}, built: map[string]error{}}
	f.StringVar(&a.to, "to", filepath.Join("docs", "reports"), "directory of the archive")
	f.StringVar(&a.headroom, "headroom", filepath.Join("bin", "headroom"), "the command to play with")
	f.StringVar(&a.runs, "runs", filepath.Join("runs", "reports-"+time.Now().UTC().Format("20060102-150405")), "directory of the runs")
	if err := f.Parse(args); err != nil {
		return 2
	}
	chosen, releases, err := choose(*only, *kubernetes)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("want no arguments, got %q", f.Args())
	}
	if err != nil {
		fmt.Fprintf(problems, "reports: %v\n", err)
		return 2
	}
	if err := os.MkdirAll(a.runs, 0o755); err != nil {
		fmt.Fprintf(problems, "reports: %v\n", err)
		return 1
	}
	lost := 0
	for _, p := range chosen {
		for _, v := range releases {
			began := time.Now()
			words, err := a.play(ctx, p, v)
			switch {
			case ctx.Err() != nil:
				fmt.Fprintf(problems, "reports: interrupted; what was archived stays\n")
				return 130
			case err != nil:
				lost++
				words = "lost: " + err.Error()
			}
			fmt.Fprintf(out, "%s %s in %s: %s\n", p.name, v, time.Since(began).Round(time.Second), words)
		}
	}
	fmt.Fprintf(out, "%d of %d reports archived in %s; then: go test ./e2e -run TestArchivedReportsDocs -update\n", len(chosen)*len(releases)-lost, len(chosen)*len(releases), a.to)
	if lost > 0 {
		return 1
	}
	return 0
}

// words splits a list at commas and spaces.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func choose(only, kubernetes string) (chosen []play, releases []versions.Version, err error) {
	names := words(only)
	var known []string
	for _, p := range plays {
		known = append(known, p.name)
		if len(names) == 0 || slices.Contains(names, p.name) {
			chosen = append(chosen, p)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, nil, fmt.Errorf("-only %q: want some of %s", n, strings.Join(known, ", "))
		}
	}
	for _, text := range words(kubernetes) {
		r, err := versions.Embedded().Find(text)
		if err != nil {
			return nil, nil, fmt.Errorf("-kubernetes: %w", err)
		}
		releases = append(releases, r.Version)
	}
	if len(releases) == 0 {
		return nil, nil, errors.New("-kubernetes: want at least one version, such as 1.36")
	}
	return chosen, releases, nil
}

// play plays once, and once more where the environment failed, and says what the report says.
func (a *archive) play(ctx context.Context, p play, v versions.Version) (string, error) {
	if p.program != "" {
		if err := once(a.built, p.program, func() error { return a.run(ctx, p.program+".log", "make", "--no-print-directory", p.program) }); err != nil {
			return "", fmt.Errorf("build its driver: %w", err)
		}
	}
	if err := once(a.fetched, v.String(), func() error {
		return a.run(ctx, "binaries-"+v.String()+".log", a.headroom, "binaries", "fetch", "--kubernetes", v.String())
	}); err != nil {
		return "", fmt.Errorf("get the components: %w", err)
	}
	var failed []error
	for try := range 2 {
		name := fmt.Sprintf("%s-%s-%d", p.name, v, try+1)
		words, err := a.try(ctx, p, v, filepath.Join(a.runs, name))
		if err == nil || ctx.Err() != nil {
			return words, err
		}
		failed = append(failed, fmt.Errorf("%s: %w", name, err))
	}
	return "", errors.Join(failed...)
}

// once does what was not done before, and keeps what came of it.
func once(done map[string]error, key string, do func() error) error {
	err, known := done[key]
	if !known {
		err = do()
		done[key] = err
	}
	return err
}

// try plays in a new run directory. A run that proves a violation, or cannot tell, has something to report of its driver; one whose environment failed has not.
func (a *archive) try(ctx context.Context, p play, v versions.Version, dir string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ran := a.run(limited, filepath.Base(dir)+".log", a.headroom, append(p.command(v), "--run-dir", dir)...)
	r, err := report.Read(filepath.Join(dir, report.FileReport))
	switch {
	case err != nil:
		return "", errors.Join(ran, err)
	case len(r.Environment) > 0:
		return "", fmt.Errorf("environment: %s: %s", r.Environment[0].Op, r.Environment[0].Error)
	case r.Conformance == nil || r.Conformance.HistoryDigest == "":
		return "", errors.New("its report says nothing of a driver's conformance")
	}
	text, err := os.ReadFile(filepath.Join(dir, report.FileReport))
	if err != nil {
		return "", err
	}
	head := fmt.Sprintf("# made with: headroom %s\n# shows: %s\n", quote(p.command(v)), p.shows)
	path := filepath.Join(a.to, p.name+"-"+v.String()+".yaml")
	if err := write(path, head+clean(string(text), dir)); err != nil {
		return "", err
	}
	return r.Conformance.Profiles[0].Summary, nil
}

// write puts a report into the archive once it is seen to be one.
func write(path, text string) error {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".draft")
	defer os.Remove(draft)
	if err := os.WriteFile(draft, []byte(text), 0o644); err != nil {
		return err
	}
	if _, err := report.Read(draft); err != nil {
		return fmt.Errorf("without paths of this machine: %w", err)
	}
	return os.Rename(draft, path)
}

// run runs a program, whose output goes to a file beside the runs.
func (a *archive) run(ctx context.Context, log, program string, args ...string) error {
	out, err := os.Create(filepath.Join(a.runs, log))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL} // Ctrl-C reaches this process first
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Minute
	runtime.LockOSThread() // the death signal comes when the starting thread ends
	defer runtime.UnlockOSThread()
	err = errors.Join(cmd.Run(), out.Close())
	if err != nil {
		return fmt.Errorf("%s: %w (its output is in %s)", filepath.Base(program), err, out.Name())
	}
	return nil
}

// quote writes arguments as a shell would take them.
func quote(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if strings.ContainsAny(a, " ^$|()*!'\"") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out[i] = a
	}
	return strings.Join(out, " ")
}
