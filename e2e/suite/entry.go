package suite

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
)

// removeLimit is what a spec may take beyond its own limit to put its bench away.
const removeLimit = 2 * time.Minute

// reserveLimit is what a spec may wait for nodes that others have.
const reserveLimit = 10 * time.Minute

// Dispatch runs the suite and exits when this executable was started as a precompiled suite, under a name that ends in ".test". It returns
// otherwise.
func Dispatch() {
	if !strings.HasSuffix(filepath.Base(os.Args[0]), precompiled) || os.Getenv(EnvRunDir) == "" {
		return
	}
	flag.Bool("test.v", false, "")
	flag.Duration("test.timeout", 0, "")
	flag.Parse()
	t := &process{}
	Run(t)
	if t.failed {
		os.Exit(1)
	}
	os.Exit(0)
}

// precompiled is how Ginkgo recognises a compiled suite.
const precompiled = ".test"

// process stands in for *testing.T.
type process struct{ failed bool }

func (p *process) Fail() { p.failed = true }

// options are for the entry that makes the run itself.
var options = run.Options{Out: os.Stderr}

// Flags adds the flags of `go test ./e2e/suite`; they are the same as those of `headroom run`.
func Flags() {
	flag.StringVar(&options.Driver, "driver", "steady", "driver under test: a name or a path to a .yaml file")
	flag.StringVar(&options.Provider, "provider", "local", "what makes the cluster: local or kind")
	flag.StringVar(&options.RunDir, "run-dir", "", "empty or new directory for the run")
	flag.Int64Var(&options.Seed, "headroom.seed", 0, "seed of all random choices; 0 means a new one")
}

// Run runs all specs, in this process and in those that Ginkgo started beside it.
func Run(t ginkgo.GinkgoTestingT) {
	build()
	var owned *run.Session // the run, where this process made it
	ginkgo.SynchronizedBeforeSuite(func(ctx context.Context) []byte {
		if dir := os.Getenv(EnvRunDir); dir != "" {
			return []byte(dir)
		}
		s, err := run.Start(ctx, options)
		if err != nil {
			ginkgo.Fail(err.Error())
		}
		owned = s
		return []byte(s.Dir)
	}, func(ctx context.Context, dir []byte) {
		s, err := run.Join(ctx, string(dir), fmt.Sprintf("p%d", ginkgo.GinkgoParallelProcess()))
		if err != nil {
			ginkgo.Fail(err.Error())
		}
		session = s
		if owned == nil { // the owner outlives the cluster, to judge
			go exitWith(s)
		}
	})
	ginkgo.SynchronizedAfterSuite(func() {
		if ginkgo.GinkgoParallelProcess() != 1 {
			leave()
		}
	}, func(ctx context.Context) {
		leave() // process 1 waits for the others until now; was it killed meanwhile, that must show
		if owned != nil {
			judge(ctx, owned)
		}
	})
	// Without this, Ginkgo keeps the specs of one container in their order, whatever their priority.
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.RandomizeAllSpecs = true
	if os.Getenv(EnvRunDir) == "" { // otherwise `headroom run` has selected
		suite.LabelFilter = withoutLong(suite.LabelFilter)
	}
	ginkgo.RunSpecs(t, "headroom", suite, reporter)
}

// leave ends this process's part in the run.
func leave() {
	if session == nil {
		return
	}
	if err := session.Close(); err != nil {
		ginkgo.Fail(err.Error())
	}
}

// exitWith ends this process when the cluster is gone: it has nothing left to do, and must not stay behind when the run was killed.
func exitWith(s *run.Session) {
	s.AwaitEnd()
	os.Exit(3)
}

// judge ends the run that this process made, and fails the suite unless all held.
func judge(ctx context.Context, s *run.Session) {
	r, err := s.Finish(ctx)
	if err != nil {
		ginkgo.Fail(err.Error())
	}
	var text strings.Builder
	if err := report.Table(&text, r, report.Options{Dir: s.Dir}); err != nil {
		ginkgo.Fail(err.Error())
	}
	_, _ = io.WriteString(os.Stdout, text.String()) // where `go test` shows it
	if code := report.ExitCode(r); code != 0 {
		ginkgo.Fail(fmt.Sprintf("not all held (exit code %d of `headroom check %s`)", code, s.Dir))
	}
}

// withoutLong leaves long specs out, unless the label filter names their label.
func withoutLong(filter string) string {
	switch {
	case strings.Contains(filter, run.LabelLong):
		return filter
	case filter == "":
		return "!" + run.LabelLong
	}
	return "(" + filter + ") && !" + run.LabelLong
}

// Select returns the ids of the specs whose id matches the regular expression focus and whose labels match the Ginkgo label filter; "" matches all
// but long ones. Those match a filter that names their label, or a focus that matches nothing else. A choice that cannot be understood, or chooses nothing, is an error.
func Select(focus, labels string) ([]string, error) {
	pattern, err := regexp.Compile(focus)
	if err != nil {
		return nil, fmt.Errorf("--focus %q: %w", focus, err)
	}
	asked, err := types.ParseLabelFilter(labels)
	if err != nil {
		// Ginkgo's own message is coloured and of several lines.
		return nil, fmt.Errorf("--label-filter %q is no Ginkgo label filter: want one such as %q or %q", labels, "!slow", "smoke || slow")
	}
	filter, err := types.ParseLabelFilter(withoutLong(labels))
	if err != nil {
		return nil, err
	}
	var known, chosen, long []string
	for _, r := range run.Requirements() {
		known = append(known, r.ID)
		switch matches := pattern.MatchString(r.ID); {
		case matches && filter(r.Labels):
			chosen = append(chosen, r.ID)
		case matches && focus != "" && asked(r.Labels):
			long = append(long, r.ID)
		}
	}
	if len(chosen) == 0 {
		chosen = long
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no spec matches --focus %q and --label-filter %q; there are: %s", focus, labels, strings.Join(known, ", "))
	}
	return chosen, nil
}

// Focus is the expression by which Ginkgo finds the specs of these ids.
func Focus(ids []string) string { return "^headroom conformance (" + strings.Join(ids, "|") + ")$" }

// Applicable keeps those of the specs with these ids that are not about what other versions lack. That none is left is an error with the reasons.
func Applicable(ids []string, ran map[string]string) ([]string, error) {
	var kept, reasons []string
	for _, r := range run.Requirements() {
		if !slices.Contains(ids, r.ID) {
			continue
		}
		if why := r.Contrary(ran); why != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", r.ID, why))
			continue
		}
		kept = append(kept, r.ID)
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("no spec that was chosen applies to the versions that were chosen: %s", strings.Join(reasons, "; "))
	}
	return kept, nil
}
