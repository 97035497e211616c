package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property,omitempty"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitMessage `xml:"failure,omitempty"`
	Error     *junitMessage `xml:"error,omitempty"`
	Skipped   *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",cdata"`
}

// JUnit is the text of junit.xml: a suite of requirements and one of invariants. Violated is a failure; inconclusive rows, environment problems
// and doubts are errors, since CI systems count a skipped case as good. Skipped is for specs that did not apply. What was not judged, and what is
// known upstream, is no case at all but a property of the suite: a case would pass.
func (r Report) JUnit() ([]byte, error) { return encodeJUnit(r.Elapsed, r.suites("headroom ")) }

// JUnitPart is a run among several.
type JUnitPart struct {
	// Name begins the names of the run's suites.
	Name string
	// Report is what the run left, nil where it left none. Problem is what is wrong with the run itself, "" for nothing.
	Report  *Report
	Problem string
	Elapsed Duration
}

// JUnit is the text of one junit.xml for several runs: the suites of each. A run with a problem, or without a report, has
// a suite with an error besides.
func JUnit(parts []JUnitPart) ([]byte, error) {
	var all []junitSuite
	var elapsed Duration
	for _, p := range parts {
		elapsed += p.Elapsed
		if p.Report == nil || p.Problem != "" {
			problem := cmp.Or(p.Problem, "no report")
			s := junitSuite{Name: p.Name, Time: junitTime(p.Elapsed)}
			s.add("run", "run", p.Elapsed, "EnvironmentError", problem, problem)
			all = append(all, s)
		}
		if p.Report != nil {
			all = append(all, p.Report.suites(p.Name+" ")...)
		}
	}
	return encodeJUnit(elapsed, all)
}

// suites are the report's, with their names after a prefix.
func (r Report) suites(prefix string) []junitSuite {
	requirements := junitSuite{Name: prefix + "requirements", Time: junitTime(r.Elapsed)}
	for _, p := range r.Environment {
		requirements.add(p.Op, "environment", 0, "EnvironmentError", p.Error, withRemedy(p))
	}
	for i, d := range r.Doubts {
		requirements.add(fmt.Sprintf("run %d", i+1), "run", 0, string(Inconclusive), d, d)
	}
	for _, q := range r.Requirements {
		requirements.add(q.ID, string(q.Boundary), q.Elapsed, string(q.Status), q.Message, q.text())
	}
	invariants := junitSuite{Name: prefix + "invariants", Time: junitTime(r.Elapsed)}
	for _, i := range r.Invariants {
		switch i.Status {
		case NotJudged:
			invariants.property("not-judged/"+i.Name, i.Detail)
		case Expected:
			invariants.property("as-expected/"+i.Name, i.Detail)
		case KnownUpstream:
			invariants.property("known-upstream/"+i.Name, i.Detail)
		default:
			invariants.add(i.Name, string(i.Boundary), 0, string(i.Status), i.Detail, i.text())
		}
	}
	both := []junitSuite{requirements, invariants}
	for i := range both {
		s := &both[i]
		s.property("run", r.Run)
		s.property("seed", fmt.Sprint(r.Seed))
		s.property("provider", r.Provider)
		s.property("driver", r.Driver)
		if !r.Started.IsZero() {
			s.Timestamp = r.Started.Format("2006-01-02T15:04:05")
		}
	}
	return both
}

func encodeJUnit(elapsed Duration, suites []junitSuite) ([]byte, error) {
	all := junitSuites{Name: "headroom", Time: junitTime(elapsed), Suites: suites}
	for _, s := range suites {
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
	}
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode junit: %w", err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

func (s *junitSuite) property(name, value string) {
	s.Properties = append(s.Properties, junitProperty{Name: printable(name), Value: printable(value)})
}

func (s *junitSuite) add(name, class string, elapsed Duration, status, message, text string) {
	if class == "" {
		class = "unassigned"
	}
	c := junitCase{Name: printable(name), ClassName: "headroom." + class, Time: junitTime(elapsed)}
	first, _, _ := strings.Cut(printable(message), "\n")
	m := &junitMessage{Message: first, Type: status, Text: printable(text)}
	s.Tests++
	switch status {
	case string(Held):
	case string(Skipped):
		c.Skipped = &junitMessage{Message: first}
		s.Skipped++
	case string(Inconclusive), "EnvironmentError":
		c.Error = m
		s.Errors++
	default:
		c.Failure = m
		s.Failures++
	}
	s.Cases = append(s.Cases, c)
}

func withRemedy(p EnvironmentProblem) string {
	if p.Remedy == "" {
		return p.Error
	}
	return p.Error + "\nremedy: " + p.Remedy
}

// text is all that is known of a requirement that did not hold.
func (q Requirement) text() string {
	var b strings.Builder
	b.WriteString(q.Message)
	for _, e := range q.LastEvents {
		b.WriteString("\n  " + e.line())
	}
	return b.String()
}

// text is the claim and every verdict that is not held, with its evidence.
func (i InvariantResult) text() string {
	var b strings.Builder
	b.WriteString("claim: " + i.Claim)
	for _, v := range i.Verdicts {
		if v.Status == Held {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s (%s): %s", v.Status, orNone(v.Subject), orNone(cmp.Or(v.Spec, v.Scope)), v.Detail)
		for _, e := range v.Evidence {
			b.WriteString("\n  " + e.line())
		}
	}
	return b.String()
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func junitTime(d Duration) string { return fmt.Sprintf("%.3f", time.Duration(d).Seconds()) }
