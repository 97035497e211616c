package killtest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"headroom/e2e/framework/history"
)

var (
	seedFlag    = flag.Int64("kill.seed", 0, "seed of the instants and victims; 0 means a new one")
	programFlag = flag.String("kill.headroom", "", "absolute path of the headroom command to kill; empty builds it")
)

const (
	// kills is how often each phase is killed.
	kills = 5
	// atOnce is how many runs there are at a time: two share the processors well, for each of them often waits.
	atOnce = 2
	// wantComponents is at how many kills the control plane must have been alive, or the test shows little.
	wantComponents = 20
	// tries is how often a phase that was over before the signal came is tried.
	tries = 3
)

// result is one row of the tally.
type result struct {
	phase, at, victim, driver string
	components                int
	code, judged              int
	took                      time.Duration
}

func TestKill(t *testing.T) {
	headroom := command(t)
	seed := chosenSeed()
	plan := append(plan(seed), someFaults(t, seed)...)
	results := carryOut(t, headroom, plan, seed)
	alive := 0
	for _, r := range results {
		if r.components > 0 {
			alive++
		}
	}
	if len(results) != len(plan) || alive < wantComponents {
		t.Errorf("want %d kills, the control plane alive at %d of them or more; got %d and %d", len(plan), wantComponents, len(results), alive)
	}
	registryIsTidied(t, headroom)
}

// chosenSeed is that of the flag, or a new one.
func chosenSeed() int64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return int64(rand.Uint32()) + 1
}

// carryOut kills all that is planned, some at a time, and shows the tally.
func carryOut(t *testing.T, headroom program, plan []kill, seed int64) []result {
	t.Helper()
	t.Logf("seed %d (-kill.seed)", seed)
	var mu sync.Mutex
	var results []result
	slots := make(chan struct{}, atOnce)
	began := time.Now()
	t.Run("at", func(t *testing.T) {
		dir := t.TempDir()
		for i, k := range plan {
			t.Run(fmt.Sprintf("%s/%s/%02d", k.phase, k.victim, i), func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				r := k.run(t, headroom, filepath.Join(dir, fmt.Sprintf("run%02d", i)), seed+int64(i))
				mu.Lock()
				defer mu.Unlock()
				results = append(results, r)
			})
		}
	})
	t.Logf("%d kills in %s\n%s", len(results), time.Since(began).Round(time.Second), tally(results))
	return results
}

// registryIsTidied checks that killed commands do not stay in the registry of `headroom down`.
func registryIsTidied(t *testing.T, headroom program) {
	out, err := headroom.command("down").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "no cluster of yours is running") {
		t.Errorf("headroom down after the kills: want no cluster, got %v: %s", err, out)
	}
	left, err := filepath.Glob(filepath.Join(headroom.state, "headroom", "clusters", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the registry after headroom down: want nothing, got %q (%v)", left, err)
	}
}

// errLate says that a phase was over before the signal came.
var errLate = errors.New("too late")

// run kills one run, again when the first signal came too late.
func (k kill) run(t *testing.T, headroom program, dir string, seed int64) result {
	for try := range tries {
		r, err := k.try(t, headroom, fmt.Sprintf("%s-%d", dir, try+1), seed)
		if err == nil {
			return r
		}
		if !errors.Is(err, errLate) {
			t.Fatal(err)
		}
		t.Logf("try %d: %v", try+1, err)
		k.delay /= 4
	}
	t.Fatalf("the signal came too late %d times", tries)
	return result{}
}

func (k kill) try(t *testing.T, headroom program, dir string, seed int64) (result, error) {
	r := result{phase: k.phase, at: k.at.name, victim: k.victim, driver: k.driver}
	run := k.start(t, headroom, dir, seed)
	began, err := run.reach(k.look, pollInterval)
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, run.said())
	}
	victim, err := k.choose(run)
	if err != nil {
		return r, err
	}
	if k.look.name != k.at.name {
		if began, err = run.reach(k.at, closeInterval); err != nil {
			return r, fmt.Errorf("%w\n%s", err, run.said())
		}
	}
	time.Sleep(k.delay)
	r.components = len(run.watch.components())
	if err := run.watch.kill(victim); err != nil {
		return r, err
	}
	at := history.Now()
	took, err := run.gone()
	r.took, r.code = took, run.code
	if err != nil {
		t.Errorf("%s killed at %s: %v\nthe command said:\n%s", k.victim, k.at.name, err, run.said())
	}
	for when, ok := run.seen(k.over); ok; when, ok = run.seen(k.over) {
		if began < when && when < at {
			return r, fmt.Errorf("%w: %s", errLate, k.over.name)
		}
	}
	if k.victim == victimSpec && !slices.Contains(run.members(), victim.pid) {
		return r, fmt.Errorf("%w: the spec process had left the run", errLate)
	}
	k.judge(t, headroom, run, &r)
	return r, nil
}

// start starts the run that is to be killed: the play of a scenario, or of a spec.
func (k kill) start(t *testing.T, headroom program, dir string, seed int64) *trial {
	t.Helper()
	if k.scenario != "" {
		return begin(t, headroom, dir, "replay", "--seed", fmt.Sprint(seed), k.scenario)
	}
	return start(t, headroom, dir, k.driver, k.focus, seed)
}

// choose picks the victim among those that fit.
func (k kill) choose(run *trial) (process, error) {
	for deadline := time.Now().Add(goneLimit); time.Now().Before(deadline); time.Sleep(pollInterval) {
		fit := run.watch.named(victims[k.victim].argv0)
		switch k.victim {
		case victimCommand:
			fit = slices.DeleteFunc(fit, func(p process) bool { return p.pid != run.watch.root })
		case victimSpec: // one that has not joined the run is no part of it yet, one that has left no more
			members := run.members()
			fit = slices.DeleteFunc(fit, func(p process) bool { return !slices.Contains(members, p.pid) })
		}
		if len(fit) > 0 {
			return fit[k.choice%len(fit)], nil
		}
		if run.ended() {
			return process{}, fmt.Errorf("%w: the run has ended, with exit code %d", errLate, run.code)
		}
	}
	return process{}, fmt.Errorf("%w: no %s among the processes of the run", errLate, k.victim)
}

// judge checks what the command said, and what its run directory is good for.
func (k kill) judge(t *testing.T, headroom program, run *trial, r *result) {
	said := run.said()
	if v := victims[k.victim]; v.message != nil {
		if !k.fits(run.code) {
			t.Errorf("%s killed at %s: want exit code 3 or 4, got %d; it said:\n%s", k.victim, k.at.name, run.code, said)
		}
		if !v.message.MatchString(said) {
			t.Errorf("%s killed at %s: want a message with %q, got:\n%s", k.victim, k.at.name, v.message, said)
		}
	}
	code, output, err := run.judged(headroom)
	if err != nil {
		t.Errorf("headroom check %s: %v", run.dir, err)
	}
	if r.judged = code; !k.fits(code) || strings.TrimSpace(output) == "" {
		t.Errorf("%s killed at %s: headroom check: want exit code 3 or 4 and a report, got %d:\n%s", k.victim, k.at.name, code, output)
	}
}

// fits says whether an exit code is right for a run that was killed: nothing can have held, but a broken driver may have been caught by then.
func (k kill) fits(code int) bool {
	return code == 3 || code == 4 || code == 1 && k.driver != reference
}

// tally is the table of all kills.
func tally(results []result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) } // a strings.Builder takes everything
	line("PHASE\tVICTIM\tAT\tDRIVER\tCONTROL PLANE\tEXIT\tCHECK\tGONE AFTER")
	for _, phase := range slices.Concat(phases, []string{phaseFault}) {
		for _, r := range results {
			if r.phase != phase {
				continue
			}
			plane, exit := "-", fmt.Sprint(r.code)
			if r.components > 0 {
				plane = "alive"
			}
			if r.code < 0 {
				exit = "killed"
			}
			line("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", r.phase, r.victim, r.at, r.driver, plane, exit, r.judged, r.took.Round(time.Millisecond))
		}
	}
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return b.String()
}

// built is the directory of the headroom command.
var built string

var build = sync.OnceValues(func() (path string, err error) {
	if built, err = os.MkdirTemp("", "headroom-kill-"); err != nil {
		return "", err
	}
	if path = *programFlag; path == "" {
		path = filepath.Join(built, "headroom")
		cmd := exec.Command("go", "build", "-o", path, "headroom/cmd/headroom")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build headroom: %w\n%s", err, out)
		}
	}
	if out, err := exec.Command(path, "binaries", "build").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the components: %w\n%s", err, out)
	}
	return path, nil
})

// command is the headroom command, built once, with a registry of this test's own.
func command(t *testing.T) program {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test kills real clusters, which takes minutes")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return program{path: path, state: t.TempDir()}
}

func TestMain(m *testing.M) {
	if ns := os.Getenv(strayVariable); ns != "" {
		strayMain(ns)
	}
	if err := withdraw(); err != nil {
		fmt.Fprintln(os.Stderr, "a mount namespace of the test's own:", err)
		os.Exit(1)
	}
	code := m.Run()
	if built != "" {
		if err := os.RemoveAll(built); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
