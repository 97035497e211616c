package drivercheck

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/strict"
)

// Identity of the report's format.
const (
	APIVersion = "headroom/v1alpha1"
	Kind       = "DriverCheck"
)

// Conclusion is the answer for the driver as a whole. Its zero value is none, and fails.
type Conclusion string

// Conclusions.
const (
	// Success is that every core check held, in all of its cases that apply, and nothing was violated.
	Success Conclusion = "Success"
	// Partial is that nothing was violated, and something of the core was not put to the test.
	Partial Conclusion = "Partial"
	// Failure is that something was violated.
	Failure Conclusion = "Failure"
)

// Report is what was found of a driver.
type Report struct {
	APIVersion string `json:"apiVersion" yaml:"apiVersion"`
	Kind       string `json:"kind" yaml:"kind"`
	// Driver and Version are what GetPluginInfo answered, Node the node id that NodeGetInfo did.
	Driver  string `json:"driver" yaml:"driver"`
	Version string `json:"version,omitempty" yaml:"version,omitempty"`
	Node    string `json:"node,omitempty" yaml:"node,omitempty"`
	// Definition is the name in the driver's definition, where there is one.
	Definition string `json:"definition,omitempty" yaml:"definition,omitempty"`
	// Socket is where the driver's Node service was looked for, where it was not started here.
	Socket     string          `json:"socket,omitempty" yaml:"socket,omitempty"`
	Started    time.Time       `json:"started" yaml:"started"`
	Elapsed    report.Duration `json:"elapsed" yaml:"elapsed"`
	Conclusion Conclusion      `json:"conclusion" yaml:"conclusion"`
	Summary    Summary         `json:"summary" yaml:"summary"`
	Checks     []Result        `json:"checks" yaml:"checks"`
}

// Summary counts the checks.
type Summary struct {
	Held         int `json:"held" yaml:"held"`
	Violated     int `json:"violated" yaml:"violated"`
	Inconclusive int `json:"inconclusive" yaml:"inconclusive"`
	Skipped      int `json:"skipped" yaml:"skipped"`
}

// Result is the answer of one check.
type Result struct {
	ID     string `json:"id" yaml:"id"`
	Claim  string `json:"claim" yaml:"claim"`
	Source string `json:"source" yaml:"source"`
	Core   bool   `json:"core" yaml:"core"`
	// Status is Held, Violated, Inconclusive or Skipped: the worst of the cases.
	Status report.Status `json:"status" yaml:"status"`
	// Detail is the worst case's.
	Detail string `json:"detail,omitempty" yaml:"detail,omitempty"`
	Cases  []Case `json:"cases" yaml:"cases"`
}

// Case is one way in which a check was put to the test.
type Case struct {
	Name   string        `json:"name" yaml:"name"`
	Status report.Status `json:"status" yaml:"status"`
	// Detail is want and got; for a case that was skipped the reason.
	Detail string `json:"detail,omitempty" yaml:"detail,omitempty"`
	// Declared says that a skipped case does not apply to this driver, by its own word: its capabilities, or its definition.
	Declared bool `json:"declared,omitempty" yaml:"declared,omitempty"`
}

// ExitCode is the exit code that the report stands for: 0 success, 1 violated, 4 partial. What is no conclusion fails like a violation.
func (r Report) ExitCode() int {
	switch r.Conclusion {
	case Success:
		return report.ExitHeld
	case Partial:
		return report.ExitInconclusive
	}
	return report.ExitViolated
}

// Name is what to call the driver: what it answered, or else what it is known by.
func (r Report) Name() string { return cmp.Or(r.Driver, r.Definition, r.Socket, "without a name") }

// NotOpened is the report of a driver that was not reached, for the reason that Run gave. One that does not come up is violated; otherwise nothing is known of it.
func NotOpened(o Options, began time.Time, reason error) Report {
	rec := newRecorder()
	var driver *cluster.DriverError
	if errors.As(reason, &driver) {
		rec.violated(caseAnswers, "%v", driver)
		rec.stopped = "the driver did not come up"
	} else {
		rec.inconclusive(caseAnswers, "%v", reason)
		rec.stopped = "the driver was not reached"
	}
	r := rec.report()
	r.Socket, r.Started, r.Elapsed = o.Socket, began.UTC().Truncate(time.Second), elapsed(time.Since(began))
	if o.Definition != nil {
		r.Definition = o.Definition.Name
	}
	return r
}

// Comparable is the report's part in a comparison.
func (r Report) Comparable() report.Comparable {
	c := report.Comparable{Facts: map[string]string{"driver": r.Driver, "version": r.Version}}
	for _, res := range r.Checks {
		c.Rows = append(c.Rows, report.Row{Kind: "check", ID: res.ID, Status: res.Status, Detail: res.Detail})
	}
	return c
}

// Decode reads a report that was printed as YAML or JSON, strictly: fields that are none, statuses that are none and a summary or conclusion that the checks
// do not bear out are errors that name the file, which is path.
func Decode(path string, b []byte) (Report, error) {
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if err := yaml.Unmarshal(b, &head); err != nil { // JSON is YAML too
		return Report{}, fmt.Errorf("read report: %w", strict.Misread(path, b, err))
	}
	if head.Kind == Kind && head.APIVersion != APIVersion {
		return Report{}, fmt.Errorf("read report %s: want apiVersion %q, got %q: read it with the version of headroom that wrote it", path, APIVersion, head.APIVersion)
	}
	if head.Kind != Kind {
		return Report{}, fmt.Errorf("read report %s: want apiVersion %q and kind %q, got %q and %q", path, APIVersion, Kind, head.APIVersion, head.Kind)
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	var r Report
	if err := dec.Decode(&r); err != nil {
		return Report{}, fmt.Errorf("read report: %w", strict.Misread(path, b, err))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Report{}, fmt.Errorf("read report %s: want one document, got more", path)
	}
	again := Report{Conclusion: Success}
	for _, res := range r.Checks {
		again.count(res)
	}
	if again.Conclusion != r.Conclusion || again.Summary != r.Summary {
		return Report{}, fmt.Errorf("read report %s: the checks say %s, %+v, the file %s, %+v: it was edited", path, again.Conclusion, again.Summary, r.Conclusion, r.Summary)
	}
	return r, nil
}

// recorder collects what came of the cases.
type recorder struct {
	cases map[string]map[string]Case
	// stopped is why cases that were not reached were not; "" while there is no reason.
	stopped string
}

func newRecorder() *recorder { return &recorder{cases: map[string]map[string]Case{}} }

// put notes a case; of several the worst one stays, and of equally bad ones the first.
func (r *recorder) put(c caseID, status report.Status, format string, args ...any) {
	c.known()
	if r.cases[c.check] == nil {
		r.cases[c.check] = map[string]Case{}
	}
	before, again := r.cases[c.check][c.name]
	if again && worse(before.Status) <= worse(status) {
		return
	}
	r.cases[c.check][c.name] = Case{Name: c.name, Status: status, Detail: fmt.Sprintf(format, args...)}
}

func (r *recorder) held(c caseID, format string, args ...any) { r.put(c, report.Held, format, args...) }

func (r *recorder) violated(c caseID, format string, args ...any) {
	r.put(c, report.Violated, format, args...)
}

func (r *recorder) inconclusive(c caseID, format string, args ...any) {
	r.put(c, report.Inconclusive, format, args...)
}

func (r *recorder) skipped(c caseID, format string, args ...any) {
	r.put(c, report.Skipped, format, args...)
}

// unfit notes cases that do not apply to the driver, by its own word.
func (r *recorder) unfit(reason string, cases ...caseID) {
	for _, c := range cases {
		r.skipped(c, "%s", reason)
		if got := r.cases[c.check][c.name]; got.Status == report.Skipped {
			got.Declared = true
			r.cases[c.check][c.name] = got
		}
	}
}

// has says what a case came to so far, "" for nothing yet.
func (r *recorder) has(c caseID) report.Status { return r.cases[c.check][c.name].Status }

// order is from worst to best.
var order = []report.Status{report.Violated, report.Inconclusive, report.Held, report.Skipped}

// worse is the rank of a status, 0 the worst; what is none of them is worse than all.
func worse(s report.Status) int { return slices.Index(order, s) }

// report is the answer of all checks. A case that nothing was noted of is inconclusive.
func (r *recorder) report() Report {
	out := Report{APIVersion: APIVersion, Kind: Kind, Conclusion: Success}
	for _, c := range Checks() {
		res := Result{ID: c.ID, Claim: c.Claim, Source: c.Source, Core: c.Core, Status: report.Skipped}
		for _, name := range c.Cases {
			got, noted := r.cases[c.ID][name]
			if !noted {
				got = Case{Name: name, Status: report.Inconclusive, Detail: "not reached"}
				if r.stopped != "" {
					got.Detail += ": " + r.stopped
				}
			}
			res.Cases = append(res.Cases, got)
		}
		for _, status := range append([]report.Status{unknown(res.Cases)}, order...) {
			if i := slices.IndexFunc(res.Cases, func(c Case) bool { return c.Status == status }); i >= 0 {
				res.Status, res.Detail = status, res.Cases[i].text()
				break
			}
		}
		out.count(res)
		out.Checks = append(out.Checks, res)
	}
	return out
}

// unknown is a status among cases that is none; "" when there is none, and a case without a status.
func unknown(cases []Case) report.Status {
	for _, c := range cases {
		if worse(c.Status) < 0 {
			return c.Status
		}
	}
	return ""
}

// text is the detail with the case's name.
func (c Case) text() string {
	if c.Detail == "" {
		return c.Name
	}
	return c.Name + ": " + c.Detail
}

// count adds a check to the summary and lowers the conclusion to what it leaves.
func (r *Report) count(res Result) {
	switch res.Status {
	case report.Held:
		r.Summary.Held++
	case report.Inconclusive:
		r.Summary.Inconclusive++
	case report.Skipped:
		r.Summary.Skipped++
	default:
		r.Summary.Violated++
		r.Conclusion = Failure
	}
	if res.Core && r.Conclusion == Success && slices.ContainsFunc(res.Cases, Case.missing) {
		r.Conclusion = Partial
	}
	if res.Status == report.Inconclusive && r.Conclusion == Success {
		r.Conclusion = Partial
	}
}

// missing says whether a case should have been put to the test and was not.
func (c Case) missing() bool {
	return c.Status == report.Inconclusive || c.Status == report.Skipped && !c.Declared
}

func elapsed(d time.Duration) report.Duration { return report.Duration(d.Round(time.Millisecond)) }
