package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
)

// cells is how many clusters a machine of this size runs side by side without one making the others slow: a control plane at its start wants two
// processors.
func cells() int { return min(16, max(1, runtime.NumCPU()/2)) }

// newSeed is short enough to type.
func newSeed() int64 { return int64(rand.Uint32()) + 1 }

func formatSeed(seed int64) string { return strconv.FormatInt(seed, 10) }

// trial is one plan to be played on a cluster of its own, by a child process: what one of them breaks is nothing to the others.
type trial struct {
	name string
	seed int64
	plan []byte
	run  run.Options
}

// ended is what became of a trial.
type ended struct {
	trial
	// skipped says that it never began.
	skipped bool
	code    int
	// report is zero where err says why there is none.
	report report.Report
	err    error
}

func (e ended) String() string {
	what := map[int]string{
		report.ExitHeld: "held", report.ExitViolated: "violated: " + strings.Join(e.violated(), " "), report.ExitInconclusive: "inconclusive",
		report.ExitEnvironment: "the environment failed",
	}[e.code]
	if e.err != nil {
		what += ": " + e.err.Error()
	}
	return fmt.Sprintf("%s  %s  %s", e.name, what, e.run.RunDir)
}

// rows lists the rows of a status: requirements, then invariants.
func (e ended) rows(status report.Status) (names []string) {
	for _, q := range e.report.Requirements {
		if q.Status == status {
			names = append(names, q.ID)
		}
	}
	for _, i := range e.report.Invariants {
		if i.Status == status {
			names = append(names, i.Name)
		}
	}
	return names
}

func (e ended) violated() []string { return e.rows(report.Violated) }
func (e ended) known() []string    { return e.rows(report.KnownUpstream) }

func skipped(all []ended) (n int) {
	for _, e := range all {
		if e.skipped {
			n++
		}
	}
	return n
}

// playAll plays trials, so many at a time, in order, and begins no further one once ctx has ended. Those that were at work then are interrupted. Each end
// is told at once, one at a time.
func playAll(ctx context.Context, trials []trial, parallel int, tell func(ended)) []ended {
	ends := make([]ended, len(trials))
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	var telling sync.Mutex
	for i, t := range trials {
		ends[i] = ended{trial: t, skipped: true}
		slots <- struct{}{}
		if ctx.Err() != nil {
			<-slots
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			e := t.play(ctx)
			// An interrupted trial proves nothing but what it violated.
			e.skipped = ctx.Err() != nil && e.code != report.ExitViolated
			telling.Lock()
			defer telling.Unlock()
			ends[i] = e
			tell(e)
		})
	}
	all.Wait()
	return ends
}

// Names in a trial's directory: its plan, what its process printed, and its run.
const (
	filePlan   = "plan.yaml"
	fileOutput = "output.log"
	dirRun     = "run"
)

// play plays a trial. Its directory holds the plan, the output, and the run.
func (t trial) play(ctx context.Context) ended {
	dir := t.run.RunDir
	t.run.RunDir = filepath.Join(dir, dirRun)
	e := ended{trial: t, code: report.ExitEnvironment}
	if e.err = os.MkdirAll(dir, 0o755); e.err != nil {
		return e
	}
	path := filepath.Join(dir, filePlan)
	if e.err = os.WriteFile(path, t.plan, 0o644); e.err != nil {
		return e
	}
	log := filepath.Join(dir, fileOutput)
	code, err := child(ctx, log, t.args(path))
	if err == nil {
		e.code = code
	}
	if e.report, e.err = report.Read(filepath.Join(t.run.RunDir, report.FileReport)); e.err != nil {
		e.err = fmt.Errorf("%w; %s says why", errors.Join(err, e.err), log)
		if !slices.Contains([]int{report.ExitViolated, report.ExitInconclusive}, e.code) {
			e.code = report.ExitEnvironment
		}
	}
	return e
}

// args are those of the child.
func (t trial) args(path string) []string {
	args := []string{
		"replay", path, "--run-dir", t.run.RunDir, "--seed", formatSeed(t.seed), "--binaries", string(t.run.From.Mode), "--mirror", t.run.From.Mirror,
	}
	if t.run.Port != 0 {
		args = append(args, "--port", strconv.Itoa(t.run.Port))
	}
	if t.run.Cache != "" {
		args = append(args, "--cache", t.run.Cache)
	}
	return args
}
