// Command tally counts what the stages of `make test` and of CI did.
//
//	tally watch [-v] FILE   reads `go test -json`, keeps it in FILE, and prints what a person wants: package results and the output of
//	                        failed tests; with -v all output, as it comes
//	tally summary DIR       prints a table of the stages noted in DIR/stages, then "N passed, N failed" alone on the last line
//
// Contract: a line of DIR/stages is "<name> <seconds> <exit code>", and what a stage did is in DIR/<name>.json (go test -json) or DIR/<name>.xml
// (JUnit); a stage without either counts as one check. A test counts once, at its innermost level. A stage that failed counts at least one failure,
// and so does one that was to run tests and ran none. Exit code 1 when anything failed, 2 when used wrongly.
//
// It runs nothing itself: `go test | tally watch` needs pipefail.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// count is what came of a number of tests.
type count struct{ passed, failed, skipped int }

func (c count) plus(o count) count {
	return count{c.passed + o.passed, c.failed + o.failed, c.skipped + o.skipped}
}

func (c count) String() string {
	s := fmt.Sprintf("%d passed, %d failed", c.passed, c.failed)
	if c.skipped > 0 {
		s += fmt.Sprintf(", %d skipped", c.skipped)
	}
	return s
}

func main() { os.Exit(tally(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func tally(args []string, in io.Reader, out, problems io.Writer) int {
	var err error
	failed := false
	switch {
	case len(args) == 2 && args[0] == "watch":
		err = watchInto(args[1], false, in, out)
	case len(args) == 3 && args[0] == "watch" && args[1] == "-v":
		err = watchInto(args[2], true, in, out)
	case len(args) == 2 && args[0] == "summary":
		failed, err = summary(args[1], out)
	default:
		fmt.Fprintf(problems, "tally: want \"watch [-v] FILE\" or \"summary DIR\", got %q\n", args)
		return 2
	}
	if err != nil {
		fmt.Fprintf(problems, "tally: %v\n", err)
		return 2
	}
	if failed {
		return 1
	}
	return 0
}

func watchInto(path string, all bool, in io.Reader, out io.Writer) error {
	keep, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(watch(in, keep, out, all), keep.Close())
}

// stage is one line of the table.
type stage struct {
	name string
	took time.Duration
	exit int
	did  count
	note string
}

// summary prints the table of a directory and reports whether anything failed.
func summary(dir string, out io.Writer) (failed bool, err error) {
	stages, err := readStages(dir)
	if err != nil {
		return false, err
	}
	var total count
	var took time.Duration
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nbudget per stage\tseconds\tpassed\tfailed\tskipped\t")
	for _, s := range stages {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t %s\n", s.name, int(s.took.Seconds()), s.did.passed, s.did.failed, s.did.skipped, s.note)
		total, took = total.plus(s.did), took+s.took
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\t\n", int(took.Seconds()), total.passed, total.failed, total.skipped)
	if err := w.Flush(); err != nil {
		return false, err
	}
	_, err = fmt.Fprintln(out, total)
	return total.failed > 0, err
}

func readStages(dir string) ([]stage, error) {
	path := filepath.Join(dir, "stages")
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("no stage has run: %w", err)
	}
	defer f.Close()
	var all []stage
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		s, err := parseStage(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if err := s.read(dir); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no stage has run: %s is empty", path)
	}
	return all, lines.Err()
}

func parseStage(line string) (stage, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return stage{}, fmt.Errorf("want \"name seconds exit\", got %q", line)
	}
	seconds, err := strconv.Atoi(fields[1])
	if err != nil {
		return stage{}, fmt.Errorf("seconds: %w", err)
	}
	exit, err := strconv.Atoi(fields[2])
	return stage{name: fields[0], took: time.Duration(seconds) * time.Second, exit: exit}, err
}

// read finds what the stage did.
func (s *stage) read(dir string) error {
	path := filepath.Join(dir, s.name)
	tests := true
	var err error
	if s.did, err = countFile(path+".json", countGoTest); errors.Is(err, os.ErrNotExist) {
		if s.did, err = countFile(path+".xml", countJUnit); errors.Is(err, os.ErrNotExist) {
			tests, err = false, nil
		}
	}
	if err != nil {
		return err
	}
	switch {
	case s.exit != 0 && s.did.failed == 0:
		s.did.failed, s.note = 1, fmt.Sprintf("exit code %d", s.exit)
	case s.exit == 0 && !tests:
		s.did.passed = 1
	case s.did == count{}:
		s.did.failed, s.note = 1, "ran no test"
	}
	return nil
}

func countFile(path string, counter func(io.Reader) (count, error)) (count, error) {
	f, err := os.Open(path)
	if err != nil {
		return count{}, err
	}
	defer f.Close()
	c, err := counter(f)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
