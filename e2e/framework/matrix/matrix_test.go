package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/versions"
)

// rows are three: all at one version, a silent combination, and an attacher whose gate is set.
func rows(t *testing.T) []Row {
	t.Helper()
	table := versions.Embedded()
	var all []versions.Combination
	for _, change := range []map[string]versions.Version{nil, {"kubelet": "v1.34.4"}, {"csi-attacher": "v4.11.0", "kube-scheduler": "v1.35.4", "kube-controller-manager": "v1.35.4"}} {
		c, err := versions.Default().Of().With(change)
		if err != nil {
			t.Fatal(err)
		}
		if change["csi-attacher"] != "" {
			c.AttacherGate = "true"
		}
		all = append(all, c)
	}
	return Rows(table, all)
}

func TestRows(t *testing.T) {
	all := rows(t)
	for i, want := range []struct{ args, silent string }{
		{"--kubernetes v1.36.3", ""},
		{"--kubernetes v1.36.3 --component kubelet=v1.34.4", "silent: kube-apiserver v1.36.3 stores a period, and kubelet v1.34.4 does not act on it (gate off)"},
		{"--kubernetes v1.36.3 --component kube-controller-manager=v1.35.4 --component kube-scheduler=v1.35.4 --component csi-attacher=v4.11.0 " +
			"--gate csi-attacher/MutableCSINodeAllocatableCount=true", ""},
	} {
		if got := strings.Join(all[i].Args, " "); got != want.args || all[i].Silent != want.silent {
			t.Errorf("row %d: want %q, %q, got %q, %q", i, want.args, want.silent, got, all[i].Silent)
		}
	}
	if len(all[0].Without) != 0 || len(all[1].Without) != 2 || len(all[2].Without) != 0 {
		t.Errorf("what does not work: got %q, %q, %q", all[0].Without, all[1].Without, all[2].Without)
	}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := List(&out, rows(t)); err != nil {
		t.Fatal(err)
	}
	want := `API SERVER  MANAGER, SCHEDULER  KUBELET  ATTACHER         WITHOUT
v1.36.3     v1.36.3             v1.36.3  v4.12.0          -
v1.36.3     v1.36.3             v1.34.4  v4.12.0          silent: kube-apiserver v1.36.3 stores a period, and kubelet v1.34.4 does not act on it (gate off)
v1.36.3     v1.35.4             v1.36.3  v4.11.0 gate on  -
`
	if out.String() != want {
		t.Errorf("want:\n%s\ngot:\n%s", want, out.String())
	}
	out.Reset()
	if err := GitHub(&out, rows(t)[:2]); err != nil {
		t.Fatal(err)
	}
	const github = `{"include":[{"name":"api1.36.3-ctl1.36.3-kubelet1.36.3-attacher4.12.0","args":"--kubernetes v1.36.3"},` +
		`{"name":"api1.36.3-ctl1.36.3-kubelet1.34.4-attacher4.12.0","args":"--kubernetes v1.36.3 --component kubelet=v1.34.4"}]}` + "\n"
	if out.String() != github {
		t.Errorf("want:\n%s\ngot:\n%s", github, out.String())
	}
	out.Reset()
	if err := errors.Join(GitHub(&out, nil), JSON(&out, rows(t))); err != nil {
		t.Fatal(err)
	}
	if empty, rest, _ := strings.Cut(out.String(), "\n"); empty != `{"include":[]}` || !json.Valid([]byte(rest)) {
		t.Errorf("got:\n%s", out.String())
	}
}

// leave writes a report as a run would.
func leave(t *testing.T, dir string, r report.Report) int {
	t.Helper()
	r.APIVersion, r.Kind = report.APIVersion, report.Kind
	r.Summary = r.Summarise()
	if err := errors.Join(os.MkdirAll(dir, 0o755), report.Write(dir, r)); err != nil {
		t.Fatal(err)
	}
	return report.ExitCode(r)
}

func requirement(status report.Status, message string) report.Report {
	return report.Report{Requirements: []report.Requirement{{ID: "count-drop", Boundary: history.Kubelet, Status: status, Message: message}}}
}

func TestRun(t *testing.T) {
	all := rows(t)
	for _, c := range []struct {
		name  string
		start func(t *testing.T, dir string) (int, error)
		want  report.Status
		code  int
		why   string
	}{
		{"held", func(t *testing.T, dir string) (int, error) { return leave(t, dir, requirement(report.Held, "")), nil }, report.Held, 0, ""},
		{"violated", func(t *testing.T, dir string) (int, error) {
			return leave(t, dir, requirement(report.Violated, "want 2, got 4\nmore")), nil
		}, report.Violated, 1, "count-drop (kubelet) violated: want 2, got 4"},
		{"inconclusive", func(t *testing.T, dir string) (int, error) {
			return leave(t, dir, requirement(report.Inconclusive, "slow")), nil
		}, report.Inconclusive, 4, "count-drop (kubelet) inconclusive: slow"},
		{"did not start", func(*testing.T, string) (int, error) { return 0, errors.New("no such program") }, report.Inconclusive, 3, "no such program"},
		{"no report", func(*testing.T, string) (int, error) { return 3, nil }, report.Inconclusive, 3, "left no report"},
		{"no report and no failure", func(*testing.T, string) (int, error) { return 0, nil }, report.Inconclusive, 3, "exit code 0 and left no report"},
		{"another exit code", func(t *testing.T, dir string) (int, error) {
			return 0, errors.Join(nil, func() error { leave(t, dir, requirement(report.Violated, "x")); return nil }())
		}, report.Inconclusive, 3, "ended with exit code 0, its report says 1"},
		{"broken report", func(t *testing.T, dir string) (int, error) {
			leave(t, dir, requirement(report.Held, ""))
			return 0, os.WriteFile(filepath.Join(dir, report.FileReport), []byte("apiVersion: other\nkind: Report\n"), 0o644)
		}, report.Inconclusive, 3, "want apiVersion"},
		{"killed", func(*testing.T, string) (int, error) { return -1, nil }, report.Inconclusive, 3, "exit code -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var progress bytes.Buffer
			results := Run(t.Context(), all[:1], t.TempDir(), func(_ context.Context, _ Row, dir string) (int, error) { return c.start(t, dir) }, &progress)
			r := results[0]
			if r.Status != c.want || r.ExitCode != c.code || ExitCode(results) != c.code || !strings.Contains(strings.Join(r.Why, "\n"), c.why) {
				t.Errorf("want %s, exit code %d, %q, got %s, %d, %q", c.want, c.code, c.why, r.Status, r.ExitCode, r.Why)
			}
			junit, err := JUnit(results)
			if err != nil {
				t.Fatal(err)
			}
			if good := !bytes.Contains(junit, []byte("<failure")) && !bytes.Contains(junit, []byte("<error")); good != (c.code == 0) || !bytes.Contains(junit, []byte(`<testsuite name="`+all[0].Name)) {
				t.Errorf("junit: want suites of %q that are good: %t, got %s", all[0].Name, c.code == 0, junit)
			}
			if !strings.HasPrefix(progress.String(), "[1/1] "+all[0].Name+"  "+strings.ToLower(string(c.want))) {
				t.Errorf("progress: got %q", progress.String())
			}
		})
	}
}

// TestRunGoesOn: the rows after one that failed are run too, and an interrupt leaves the rest open.
func TestRunGoesOn(t *testing.T) {
	all := rows(t)
	ctx, cancel := context.WithCancel(t.Context())
	var ran []string
	results := Run(ctx, all, t.TempDir(), func(_ context.Context, r Row, dir string) (int, error) {
		ran = append(ran, r.Name)
		if len(ran) == 2 {
			cancel()
		}
		return leave(t, dir, requirement([]report.Status{report.Violated, report.Held}[len(ran)-1], "wrong")), nil
	}, &bytes.Buffer{})
	if !slices.Equal(ran, []string{all[0].Name, all[1].Name}) {
		t.Errorf("ran %q", ran)
	}
	if results[0].Status != report.Violated || results[1].Status != report.Held || results[2].Status != report.Inconclusive || ExitCode(results) != 1 {
		t.Errorf("got %+v", results)
	}
	var out bytes.Buffer
	if err := Table(&out, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"v1.36.3     v1.36.3             v1.36.3  v4.12.0          violated      0", "run with: headroom run --kubernetes v1.36.3\n",
		"  count-drop (kubelet) violated: wrong\n", "  not run: interrupted\n", "\n3 combinations: 1 held, 1 violated, 1 inconclusive, in 0s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, out.String())
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		codes []int
		want  int
	}{{[]int{0, 0}, 0}, {[]int{0, 4}, 4}, {[]int{4, 3, 0}, 3}, {[]int{3, 1, 4}, 1}, {nil, 4}} {
		var all []Result
		for _, code := range c.codes {
			all = append(all, Result{ExitCode: code})
		}
		if got := ExitCode(all); got != c.want {
			t.Errorf("%v: want %d, got %d", c.codes, c.want, got)
		}
	}
}
