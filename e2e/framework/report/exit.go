package report

import "slices"

// Exit codes of a judged run. 2, bad usage or input, belongs to the command line: a Report never means it.
const (
	ExitHeld         = 0
	ExitViolated     = 1
	ExitEnvironment  = 3
	ExitInconclusive = 4
)

// ExitCode is the exit code that r stands for. A violation outranks environment errors, and these outrank inconclusive: a proof stays a proof
// whatever else went wrong. A status that is none of the named ones fails like a violation.
func ExitCode(r Report) int { return r.Summarise().ExitCode }

// WorstExit is the exit code of several runs together: the one that outranks the others; none at all is inconclusive. A code that is none of the named
// ones outranks all.
func WorstExit(codes ...int) int {
	if len(codes) == 0 {
		return ExitInconclusive
	}
	rank := []int{ExitHeld, ExitInconclusive, ExitEnvironment, ExitViolated}
	worst := ExitHeld
	for _, code := range codes {
		if !slices.Contains(rank, code) {
			return code
		}
		if slices.Index(rank, code) > slices.Index(rank, worst) {
			worst = code
		}
	}
	return worst
}

// Summary counts the rows of a report.
type Summary struct {
	// ExitCode is the exit code that the report stands for.
	ExitCode      int `json:"exitCode" yaml:"exitCode"`
	Requirements  int `json:"requirements" yaml:"requirements"`
	Invariants    int `json:"invariants" yaml:"invariants"`
	Held          int `json:"held" yaml:"held"`
	Violated      int `json:"violated" yaml:"violated"`
	Inconclusive  int `json:"inconclusive" yaml:"inconclusive"`
	KnownUpstream int `json:"knownUpstream" yaml:"knownUpstream"`
	NotJudged     int `json:"notJudged" yaml:"notJudged"`
	Skipped       int `json:"skipped" yaml:"skipped"`
	Expected      int `json:"expected,omitempty" yaml:"expected,omitempty"`
	Environment   int `json:"environment" yaml:"environment"`
}

// Summarise counts the rows as they stand, whatever r.Summary says.
func (r Report) Summarise() Summary {
	s := Summary{Requirements: len(r.Requirements), Invariants: len(r.Invariants), Environment: len(r.Environment)}
	for _, q := range r.Requirements {
		s.count(q.Status)
	}
	for _, i := range r.Invariants {
		s.count(i.Status)
	}
	switch {
	case s.Violated > 0:
		s.ExitCode = ExitViolated
	case s.Environment > 0:
		s.ExitCode = ExitEnvironment
	case s.Inconclusive > 0, len(r.Doubts) > 0, s.judged() == 0:
		s.ExitCode = ExitInconclusive
	default:
		s.ExitCode = ExitHeld
	}
	return s
}

func (s *Summary) count(status Status) {
	switch status {
	case Held:
		s.Held++
	case Inconclusive:
		s.Inconclusive++
	case KnownUpstream:
		s.KnownUpstream++
	case Expected:
		s.Expected++
	case NotJudged:
		s.NotJudged++
	case Skipped:
		s.Skipped++
	default: // Violated, and what is no status at all
		s.Violated++
	}
}

// judged counts the rows that were put to the test, whatever came of it.
func (s Summary) judged() int {
	return s.Held + s.Violated + s.Inconclusive + s.KnownUpstream + s.Expected
}
