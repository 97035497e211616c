package report

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestGolden(t *testing.T) {
	codes := map[string]int{"held": 0, "violated": 1, "inconclusive": 4, "environment": 3, "damaged": 4, "conformance": 4}
	for name, input := range fixtures {
		t.Run(name, func(t *testing.T) {
			r := Build(input())
			if got := ExitCode(r); got != codes[name] {
				t.Errorf("exit code: want %d, got %d", codes[name], got)
			}
			var table bytes.Buffer
			if err := Table(&table, r, Options{Dir: "runs/" + name}); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", table.Bytes())
			checkTable(t, table.String())
			dir := t.TempDir()
			if err := Write(dir, r); err != nil {
				t.Fatal(err)
			}
			for file, suffix := range map[string]string{FileReport: ".yaml", FileJUnit: ".xml"} {
				b, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				golden(t, name+suffix, b)
			}
			back, err := Read(filepath.Join(dir, FileReport))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, normal(r)) {
				t.Errorf("report.yaml reads back differently\nwant %+v\ngot  %+v", normal(r), back)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 2 {
				t.Errorf("want two files and nothing left over, got %v (%v)", entries, err)
			}
		})
	}
}

// normal is r as YAML keeps it: an empty list of rows is no nil.
func normal(r Report) Report {
	if r.Requirements == nil {
		r.Requirements = []Requirement{}
	}
	if r.Invariants == nil {
		r.Invariants = []InvariantResult{}
	}
	return r
}

// checkTable holds what every table promises.
func checkTable(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsRune(text, '\x1b') {
		t.Error("escape sequences in a table without colour")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if n := utf8.RuneCountInString(line); n > lineWidth && !strings.HasPrefix(line, "    +") {
			t.Errorf("line of %d columns: %q", n, line)
		}
	}
}

func TestColourOnlyPaints(t *testing.T) {
	r := Build(fixtures["violated"]())
	var plain, coloured bytes.Buffer
	if err := Table(&plain, r, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Table(&coloured, r, Options{Colour: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(coloured.String(), "\x1b[31mviolated\x1b[0m") {
		t.Error("want violated in red")
	}
	bare := coloured.String()
	for _, code := range []string{"0", "1", "2", "31", "32", "33", "36"} {
		bare = strings.ReplaceAll(bare, "\x1b["+code+"m", "")
	}
	if bare != plain.String() {
		t.Errorf("colour changes the text\n--- plain\n%s--- coloured\n%s", plain.String(), bare)
	}
	if Colour(&plain) {
		t.Error("want no colour for what is no terminal")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if Colour(file) {
		t.Error("want no colour for a file")
	}
	if Width(&plain) != 0 || Width(file) != 0 {
		t.Errorf("want no width of what is no terminal, got %d and %d", Width(&plain), Width(file))
	}
}

// TestRowsAreCutAtTheWidth holds that a wider table says more of a row, and a whole one all.
func TestRowsAreCutAtTheWidth(t *testing.T) {
	detail := strings.Repeat("word ", 60) + "end"
	r := Report{Invariants: []InvariantResult{{Name: "a", Status: Held, Detail: detail}}}
	for width, want := range map[int]int{0: lineWidth, 40: lineWidth, 140: 140, Whole: 0} {
		var b bytes.Buffer
		if err := Table(&b, r, Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		var row string
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "a ") {
				row = strings.TrimSuffix(line, "\n")
			}
		}
		switch n := utf8.RuneCountInString(row); {
		case width == Whole && !strings.HasSuffix(row, detail):
			t.Errorf("whole: want all of the detail, got %q", row)
		case width != Whole && (n > want || n < want-len("word ") || !strings.HasSuffix(row, "…")):
			t.Errorf("width %d: want a row cut at %d columns, got %d: %q", width, want, n, row)
		}
	}
}

func TestLongListsAreCut(t *testing.T) {
	r := Report{Invariants: []InvariantResult{{Name: strings.Repeat("a-long-name-", 6), Status: Violated}}}
	for range maxShown + 3 {
		v := Verdict{Status: Violated, Subject: "n", More: 5}
		for range maxEvidenceShown + 2 {
			v.Evidence = append(v.Evidence, Event{Ref: "csi/n1#1", Body: `{"message":"` + strings.Repeat("x", 500) + `"}`})
		}
		r.Invariants[0].Verdicts = append(r.Invariants[0].Verdicts, v)
	}
	var b bytes.Buffer
	if err := Table(&b, r, Options{Dir: "it's here"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"and 3 more verdicts: see report.yaml", "    and 7 more\n", "…", `headroom check 'it'\''s here'`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > maxEvidenceLine {
			t.Errorf("line of %d columns", n)
		}
	}
}

func TestJUnit(t *testing.T) {
	r := Report{
		Elapsed:     Duration(90e9),
		Doubts:      []string{"nothing was judged"},
		Environment: []EnvironmentProblem{{Op: "start etcd", Error: "no port"}},
		Requirements: []Requirement{
			{ID: "held", Status: Held, Elapsed: Duration(1500e6)},
			{ID: "violated", Status: Violated, Message: "want \x00\x1b[1m<8>\ufffe & \xff got 9\nmore ]]> here"},
			{ID: "inconclusive", Status: Inconclusive, Message: "slow"},
			{ID: "skipped", Status: Skipped, Message: "does not apply"},
			{ID: "none"},
		},
		Invariants: []InvariantResult{
			{Name: "held", Status: Held}, {Name: "violated", Status: Violated}, {Name: "inconclusive", Status: Inconclusive},
			{Name: "unjudged", Status: NotJudged, Detail: "never tested"}, {Name: "known", Status: KnownUpstream},
		},
	}
	b, err := r.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(b, "\x00\x1b") || !utf8.Valid(b) {
		t.Errorf("control characters or bad UTF-8 in\n%q", b)
	}
	var got junitSuites
	if err := xml.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Suites) != 2 || got.Tests != 10 || got.Failures != 3 || got.Errors != 4 || got.Skipped != 1 {
		t.Errorf("want 2 suites, 10 tests, 3 failures, 4 errors, 1 skipped, got %d, %d, %d, %d, %d",
			len(got.Suites), got.Tests, got.Failures, got.Errors, got.Skipped)
	}
	kinds := map[string]string{
		"start etcd": "error", "run 1": "error",
		"held": "pass", "violated": "failure", "inconclusive": "error", "skipped": "skipped", "none": "failure",
	}
	for _, s := range got.Suites {
		for _, c := range s.Cases {
			kind := "pass"
			switch {
			case c.Failure != nil:
				kind = "failure"
			case c.Error != nil:
				kind = "error"
			case c.Skipped != nil:
				kind = "skipped"
			}
			if kind != kinds[c.Name] {
				t.Errorf("%s: %s: want %s, got %s", s.Name, c.Name, kinds[c.Name], kind)
			}
			if c.Name == "violated" && s.Name == "headroom requirements" && c.Failure.Message != "want <8> &  got 9" {
				t.Errorf("message %q", c.Failure.Message)
			}
			if c.Name == "held" && s.Name == "headroom requirements" && c.Time != "1.500" {
				t.Errorf("time: want seconds, got %q", c.Time)
			}
		}
	}
	if n := len(got.Suites[1].Cases); n != 3 {
		t.Errorf("want no case for what was not judged or is known upstream, got %d cases", n)
	}
}
