package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lines are events of package p, written "action test" or "action".
func lines(short ...string) string {
	var b strings.Builder
	for _, s := range short {
		action, name, named := strings.Cut(s, " ")
		b.WriteString(`{"Action":"` + action + `","Package":"p"`)
		if named {
			b.WriteString(`,"Test":"` + name + `"`)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func TestCountGoTest(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want count
	}{
		"nothing": {"", count{}},
		"one of each": {
			lines("start", "run A", "pass A", "run B", "fail B", "run C", "skip C", "fail"),
			count{passed: 1, failed: 1, skipped: 1},
		},
		"subtests count, their parent does not": {
			lines("start", "run A", "run A/x", "run A/y", "pass A/x", "pass A/y", "pass A", "pass"), count{passed: 2},
		},
		"a failed subtest counts once": {
			lines("start", "run A", "run A/x", "run A/y", "fail A/x", "pass A/y", "fail A", "fail"), count{passed: 1, failed: 1},
		},
		"a parent that fails by itself counts": {
			lines("start", "run A", "run A/x", "pass A/x", "fail A", "fail"), count{passed: 1, failed: 1},
		},
		"a test that never ended failed":       {lines("start", "run A", "pass A", "run B"), count{passed: 1, failed: 1}},
		"a package that fails by itself":       {lines("start", "run A", "pass A", "fail"), count{passed: 1, failed: 1}},
		"a package that did not build":         {`{"ImportPath":"p","Action":"build-fail"}` + "\n" + lines("start", "fail"), count{failed: 1}},
		"a package that was killed":            {lines("start"), count{failed: 1}},
		"a package without tests":              {lines("start", "skip"), count{}},
		"words of the go command are no event": {"go: downloading x\n" + lines("start", "run A", "pass A", "pass"), count{passed: 1}},
		"output that looks like a verdict": {
			lines("start", "run A") + `{"Action":"output","Package":"p","Test":"A","Output":"--- FAIL: A\n"}` + "\n" + lines("pass A", "pass"), count{passed: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := countGoTest(strings.NewReader(c.in))
			if err != nil || got != c.want {
				t.Errorf("want %+v, got %+v (error: %v)", c.want, got, err)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	in := `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"Good","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"Good"}
{"Action":"output","Package":"p","Test":"Bad","Output":"why\n"}
{"Action":"fail","Package":"p","Test":"Bad"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1s\n"}
not an event
{"Action":"build-output","ImportPath":"q","Output":"undefined: x\n"}
`
	for _, c := range []struct {
		all  bool
		want string
	}{
		{false, "why\nFAIL\tp\t1s\nnot an event\nundefined: x\n"},
		{true, "quiet\nwhy\nPASS\nFAIL\tp\t1s\nnot an event\nundefined: x\n"},
	} {
		var keep, out strings.Builder
		if err := watch(strings.NewReader(in), &keep, &out, c.all); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("all %v: want %q, got %q", c.all, c.want, out.String())
		}
		if keep.String() != in {
			t.Errorf("want all lines kept, got %q", keep.String())
		}
	}
}

const junit = `<?xml version="1.0"?><testsuites name="x" tests="10" failures="FAILURES" errors="1" skipped="2" time="1"><testsuite/></testsuites>`

func TestSummary(t *testing.T) {
	for name, c := range map[string]struct {
		stages string
		files  map[string]string
		want   []string // lines that are in the output, blanks squeezed
		last   string
		exit   int
	}{
		"a stage without tests counts once": {
			stages: "lint 41 0\n", want: []string{"lint 41 1 0 0", "all 41 1 0 0"}, last: "1 passed, 0 failed",
		},
		"stages add up": {
			stages: "lint 2 0\nunit 60 0\n", files: map[string]string{"unit.json": lines("start", "run A", "pass A", "run B", "skip B", "pass")},
			want: []string{"unit 60 1 0 1", "all 62 2 0 1"}, last: "2 passed, 0 failed, 1 skipped",
		},
		"a stage that failed counts a failure": {
			stages: "lint 2 1\n", want: []string{"lint 2 0 1 0 exit code 1"}, last: "0 passed, 1 failed", exit: 1,
		},
		"a stage that failed although its tests passed": {
			stages: "unit 2 1\n", files: map[string]string{"unit.json": lines("start", "run A", "pass A", "pass")}, last: "1 passed, 1 failed", exit: 1,
		},
		"failed tests of a stage that claims success": {
			stages: "unit 2 0\n", files: map[string]string{"unit.json": lines("start", "run A", "fail A", "fail")}, last: "0 passed, 1 failed", exit: 1,
		},
		"a stage that ran no test": {
			stages: "unit 2 0\n", files: map[string]string{"unit.json": ""}, want: []string{"unit 2 0 1 0 ran no test"}, last: "0 passed, 1 failed", exit: 1,
		},
		"junit": {
			stages: "e2e 200 0\n", files: map[string]string{"e2e.xml": strings.Replace(junit, "FAILURES", "3", 1)}, last: "4 passed, 4 failed, 2 skipped", exit: 1,
		},
		"junit that cannot be read": {stages: "e2e 1 0\n", files: map[string]string{"e2e.xml": "<testsuites"}, exit: 2},
		"no stage":                  {stages: "", exit: 2},
		"a damaged line":            {stages: "lint 2\n", exit: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.files == nil {
				c.files = map[string]string{}
			}
			c.files["stages"] = c.stages
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var out, problems strings.Builder
			if exit := tally([]string{"summary", dir}, nil, &out, &problems); exit != c.exit {
				t.Errorf("exit code: want %d, got %d; %s", c.exit, exit, problems.String())
			}
			if c.exit == 2 {
				if problems.String() == "" {
					t.Error("want a message, got none")
				}
				return
			}
			got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if last := got[len(got)-1]; last != c.last {
				t.Errorf("last line: want %q, got %q", c.last, last)
			}
			for i := range got {
				got[i] = strings.Join(strings.Fields(got[i]), " ")
			}
			for _, want := range c.want {
				if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+want+"\n") {
					t.Errorf("want a line %q in:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"watch"}, {"watch", "-x", "f"}, {"summary", filepath.Join(t.TempDir(), "none")}} {
		var out, problems strings.Builder
		if exit := tally(args, strings.NewReader(""), &out, &problems); exit != 2 || problems.String() == "" {
			t.Errorf("%q: want exit code 2 and a message, got %d and %q", args, exit, problems.String())
		}
	}
}
