package main

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail
	Test       string
	Output     string
}

// test names a test of a package; Test is "" for the package itself.
type test struct{ pkg, name string }

// watch copies the events from in to keep and prints to out.
func watch(in io.Reader, keep, out io.Writer, all bool) error {
	held := map[test][]string{} // the output of tests that have not ended
	return eachLine(in, func(line string) error {
		if _, err := fmt.Fprintln(keep, line); err != nil {
			return err
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil { // the go command's own words
			_, err := fmt.Fprintln(out, line)
			return err
		}
		t := test{e.Package, e.Test}
		var print string
		switch {
		case e.Action == "build-output", e.Action == "output" && (all || e.Test == "" && e.Output != "PASS\n"):
			print = e.Output
		case e.Action == "output":
			held[t] = append(held[t], e.Output)
		case e.Action == "fail":
			print = strings.Join(held[t], "")
			delete(held, t)
		case e.Action == "pass", e.Action == "skip":
			delete(held, t)
		}
		_, err := io.WriteString(out, print)
		return err
	})
}

// countGoTest counts the tests of a `go test -json` stream. A test that never ended failed, and so did a package that failed by itself.
func countGoTest(in io.Reader) (count, error) {
	ended := map[test]string{}
	parents := map[test]bool{}
	failing := map[string]bool{} // packages with a failed test
	err := eachLine(in, func(line string) error {
		var e event
		if json.Unmarshal([]byte(line), &e) != nil || e.Package == "" {
			return nil
		}
		t := test{e.Package, e.Test}
		switch e.Action {
		case "start", "run":
			ended[t] = ""
			for i, c := range e.Test {
				if c == '/' {
					parents[test{e.Package, e.Test[:i]}] = true
				}
			}
		case "pass", "fail", "skip":
			ended[t] = e.Action
		}
		return nil
	})
	var c count
	for t, how := range ended {
		failed := how != "pass" && how != "skip"
		switch {
		case t.name == "":
		case failed && !(parents[t] && failedBelow(ended, t)):
			c.failed++
			failing[t.pkg] = true
		case failed, parents[t]:
		case how == "skip":
			c.skipped++
		default:
			c.passed++
		}
	}
	for t, how := range ended {
		if t.name == "" && how != "pass" && how != "skip" && !failing[t.pkg] {
			c.failed++
		}
	}
	return c, err
}

// failedBelow reports whether a subtest of t explains t's failure.
func failedBelow(ended map[test]string, t test) bool {
	for sub, how := range ended {
		if sub.pkg == t.pkg && strings.HasPrefix(sub.name, t.name+"/") && how != "pass" && how != "skip" {
			return true
		}
	}
	return false
}

// countJUnit reads the totals of a JUnit file.
func countJUnit(in io.Reader) (count, error) {
	var r struct {
		XMLName  xml.Name `xml:"testsuites"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Skipped  int      `xml:"skipped,attr"`
	}
	if err := xml.NewDecoder(in).Decode(&r); err != nil {
		return count{}, err
	}
	failed := r.Failures + r.Errors
	return count{passed: r.Tests - failed - r.Skipped, failed: failed, skipped: r.Skipped}, nil
}

// eachLine calls f with each line, however long.
func eachLine(in io.Reader, f func(line string) error) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			if err := f(strings.TrimSuffix(line, "\n")); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
