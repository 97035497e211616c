// Package suite is the only caller of Ginkgo's RunSpecs.
//
// Contract: the specs are ordinary packages that register requirements; this package turns each into a Ginkgo spec on a bench of its own, and records
// start and end in the history. Two entries run it: `go test ./e2e/suite`, whose first process makes the run itself, and `headroom run`, which makes
// the run and starts this binary again as a precompiled suite. It holds no requirement of its own.
package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	_ "headroom/e2e/conformance" // registers its requirements
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/run"
)

// EnvRunDir names the run directory of a run that was made already.
const EnvRunDir = "HEADROOM_RUN_DIR"

// session is this process's part in the run, between the suite's setup and its end.
var session *run.Session

// keepFailed leaves the bench of a failed spec as it is.
var keepFailed = os.Getenv(EnvKeep) != ""

// EnvKeep, when not empty, keeps the benches of failed specs.
const EnvKeep = "HEADROOM_KEEP"

// build turns the requirements into specs. It is called once in a process, before RunSpecs.
func build() {
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.Describe("conformance", func() {
		all := run.Requirements()
		for i, r := range all {
			// Those that take longest start first, so that parallel processes end together.
			ginkgo.It(r.ID, ginkgo.Label(r.Labels...), ginkgo.SpecPriority(len(all)-i), ginkgo.SpecTimeout(run.StretchIn(os.Getenv(EnvRunDir), reserveLimit+r.Limit+removeLimit)),
				func(ctx ginkgo.SpecContext) { spec(ctx, r) })
		}
	})
}

// failure is what a failed assertion throws, so that its text reaches the history before Ginkgo sees it.
type failure struct{ message string }

// spec runs one requirement on a bench of its own.
func spec(ctx context.Context, r run.Requirement) {
	session.Begin(r)
	if why := session.DriverDown(); why != "" {
		session.EndSpec(r, run.Outcome{NotTried: why})
		ginkgo.Skip(why)
	}
	if why := r.Inapplicable(session.Header); why != "" {
		session.EndSpec(r, run.Outcome{Skipped: why})
		ginkgo.Skip(why)
	}
	// Waiting for nodes that others have is no part of the spec's time.
	kept, err := session.Reserve(ctx, r.Setup)
	var unsupported *cluster.UnsupportedError
	if errors.As(err, &unsupported) {
		session.EndSpec(r, run.Outcome{Skipped: unsupported.Error()})
		ginkgo.Skip(unsupported.Error())
	}
	if err != nil {
		session.EndSpec(r, run.Outcome{Failure: run.BenchFailure(err)})
		ginkgo.Fail(err.Error())
	}
	r.Setup.Reserved = kept
	limited, cancel := context.WithTimeout(ctx, session.Stretch(r.Limit))
	defer cancel()
	b, err := session.NewBench(limited, r.Setup)
	if err != nil {
		session.EndSpec(r, run.Outcome{Failure: run.BenchFailure(err)})
		session.NoteDriverDown(r, err)
		ginkgo.Fail(err.Error())
	}
	if err = attempt(limited, r, b); err == nil {
		err = b.Reclaim(ctx)
	}
	session.EndSpec(r, run.Outcome{Scope: b.Scope, Failure: err})
	skipped := errors.As(err, &unsupported)
	if err != nil && !skipped {
		b.Dump(context.WithoutCancel(ctx))
	}
	if err == nil || skipped || !keepFailed {
		// What cannot be removed may be the product's doing or the harness's; the invariants judge it, and the next specs do not need it gone.
		if err := b.Remove(ctx); err != nil {
			ginkgo.GinkgoWriter.Printf("the bench is not quite gone: %v\n", err)
		}
	}
	if skipped {
		ginkgo.Skip(unsupported.Error())
	}
	if err != nil {
		ginkgo.Fail(err.Error())
	}
}

// attempt runs the test and returns how it failed: an assertion, a panic, or the environment.
func attempt(ctx context.Context, r run.Requirement, b *run.Bench) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case run.Failure:
			err = p.Err
		case failure:
			err = errors.New(p.message)
		default:
			err = &cluster.EnvironmentError{Op: "run " + r.ID, Err: fmt.Errorf("the spec panicked: %v\n%s", p, debug.Stack())}
		}
		// A spec that was interrupted proves nothing, whatever it says; one that ran out of its own time does.
		if cut := ctx.Err(); cut != nil && !errors.Is(cut, context.DeadlineExceeded) {
			err = &cluster.EnvironmentError{Op: "run " + r.ID, Err: errors.Join(errors.New("interrupted"), err)}
		}
	}()
	defer gomega.RegisterFailHandler(ginkgo.Fail)
	gomega.RegisterFailHandler(func(message string, _ ...int) { panic(failure{message: strings.TrimSpace(message)}) })
	r.Test(ctx, b)
	return nil
}
