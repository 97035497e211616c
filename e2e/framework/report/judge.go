package report

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

// Judge judges the run again, and says which history that is.
func (r *Run) Judge(environment []EnvironmentProblem) (Report, error) {
	out, err := Judge(r.Header, r.Events(), environment)
	if err != nil || out.Conformance == nil {
		return out, err
	}
	f, err := os.Open(r.history)
	if err != nil {
		return out, err
	}
	defer f.Close() // it is only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return out, fmt.Errorf("read %s: %w", r.history, err)
	}
	out.Conformance.HistoryDigest = fmt.Sprintf("sha256:%x", sum.Sum(nil))
	return out, nil
}

// Judge checks all invariants over a history and reports: what a run does at its end, and what judging it again does. Events is ranged over twice,
// first for the verdicts, then for the evidence they name. A history of two runs is a *cluster.InputError; one that cannot be read to its end is
// reported as far as it goes, and is inconclusive unless that much proves a violation.
func Judge(h history.Header, events iter.Seq2[history.Event, error], environment []EnvironmentProblem) (Report, error) {
	verdicts := invariants.Judge(events, h)
	var mixed *history.MixedRunsError
	if errors.As(verdicts.Err, &mixed) {
		return Report{}, &cluster.InputError{Err: mixed}
	}
	in := Input{Header: h, Environment: environment, Events: events}
	for _, r := range verdicts.Results {
		in.Judged = append(in.Judged, Judged{Invariant: r.Invariant, Verdicts: r.Verdicts, Reason: strings.TrimPrefix(r.Note, "not judged: ")})
	}
	return Build(in), nil
}
