package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/drivercheck"
)

// TestDriverByHand walks an author's path: write a definition, lint it, fill it in, check the driver.
func TestDriverByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk.yaml")
	out, err := try(t, "driver", "init", "--name", "disk", path)
	if err != nil || !strings.Contains(out, "headroom driver lint "+path) {
		t.Fatalf("init: want the file and what to do next, got %q, %v", out, err)
	}
	if out, err = try(t, "driver", "lint", path); exitCode(err) != 2 || !strings.Contains(err.Error(), path+":13: node.command[0]") {
		t.Fatalf("lint: want the program missed, got %q, %v", out, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "figures:")
	figures, _, _ := strings.Cut(rest, "node:")
	filled := "apiVersion: headroom/v1alpha1\nkind: Driver\nname: disk\nlimit: fixed\nfigures:" + figures + `node:
  command: [headroom-hostpathlike, "--endpoint=${ENDPOINT}", "--drivername=${DRIVER_NAME}", "--nodeid=${NODE_ID}", "--statedir=${STATE_DIR}", "--enable-attach",
    "--attach-limit=2"]
`
	if err := os.WriteFile(path, []byte(filled), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err = try(t, "driver", "lint", path); err != nil || !strings.Contains(out, "note: limit: fixed") || !strings.Contains(out, "nothing is wrong") {
		t.Fatalf("lint: want a note, got %q, %v", out, err)
	}
	if out, err = try(t, "driver", "check", "--driver", path); err != nil || !strings.Contains(out, ": success\n") {
		t.Errorf("check: want success, got %v:\n%s", err, out)
	}
	out, err = try(t, "driver", "check", "--list")
	if err != nil || !strings.Contains(out, "never-unbounded (core)") || !strings.Contains(out, "gradual-recovery (extended)") {
		t.Errorf("check --list: want the checks, got %q, %v", out, err)
	}
}

func TestDriverCheckWithoutDriver(t *testing.T) {
	_, err := try(t, "driver", "check", "--socket", "unix://"+t.TempDir()+"/none")
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || exitCode(err) != 3 || !strings.Contains(err.Error(), "start the driver first") {
		t.Errorf("want an environment error with a remedy, got %v", err)
	}
}

// printed is the report among what a command printed, progress included.
func printed(t *testing.T, out string) (drivercheck.Report, string) {
	t.Helper()
	var lines []string
	for _, line := range strings.SplitAfter(out, "\n") {
		if !progress.MatchString(line) {
			lines = append(lines, line)
		}
	}
	path, text := filepath.Join(t.TempDir(), "report"), []byte(strings.Join(lines, ""))
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := drivercheck.Decode(path, text)
	if err != nil {
		t.Errorf("want a report, got %v from %q", err, out)
	}
	return r, path
}

var progress = regexp.MustCompile(`^ *[0-9]+\.[0-9]s  `)

// TestDriverCheckAlwaysPrintsADocument: of a driver that does not come up or is not there, programs get a report too.
func TestDriverCheckAlwaysPrintsADocument(t *testing.T) {
	definition := func(command, more string) string {
		path := filepath.Join(t.TempDir(), "d.yaml")
		text := "apiVersion: headroom/v1alpha1\nkind: Driver\nname: disk\nlimit: fixed\nfigures: {minInterval: 1s, cacheAge: 1s, lastGoodLife: 1h}\n" +
			"node: {command: " + command + more + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	none := "unix://" + t.TempDir() + "/none"
	for name, c := range map[string]struct {
		args       []string
		code       int
		conclusion drivercheck.Conclusion // "" for no document
		driver     string
		want       string
	}{
		"ends":         {[]string{"--driver", definition(`[/bin/sh, -c, "echo out of luck; exit 9", "${ENDPOINT} ${DRIVER_NAME} ${NODE_ID}"]`, "")}, 1, drivercheck.Failure, "disk", "exit status 9"},
		"never serves": {[]string{"--driver", definition(`[/bin/sh, -c, "exec sleep 7010", "${ENDPOINT} ${DRIVER_NAME} ${NODE_ID}"]`, ", startLimit: 1s")}, 1, drivercheck.Failure, "disk", "not ready within 1s"},
		"not there":    {[]string{"--socket", none}, 3, drivercheck.Partial, none, "reach the driver's socket"},
		"no program":   {[]string{"--driver", definition(`[/nowhere/driver, "${ENDPOINT} ${DRIVER_NAME} ${NODE_ID}"]`, "")}, 2, "", "", ""},
		"no driver":    {nil, 2, "", "", ""},
	} {
		for _, form := range []string{"yaml", "json"} {
			out, err := try(t, append([]string{"driver", "check", "-o", form}, c.args...)...)
			if exitCode(err) != c.code {
				t.Errorf("%s, %s: want exit code %d, got %v", name, form, c.code, err)
			}
			if c.conclusion == "" {
				if out != "" {
					t.Errorf("%s, %s: want nothing printed for bad input, got %q", name, form, out)
				}
				continue
			}
			r, path := printed(t, out)
			if r.Conclusion != c.conclusion || r.Name() != c.driver || len(r.Checks) == 0 || !strings.Contains(r.Checks[0].Detail, c.want) || r.Started.IsZero() {
				t.Errorf("%s, %s: want %s of %q with %q, got %s of %q: %s", name, form, c.conclusion, c.driver, c.want, r.Conclusion, r.Name(), out)
			}
			if out, err := try(t, "report", "diff", path, path); err != nil || !strings.Contains(out, "0 worse") {
				t.Errorf("%s, %s: want a report that can be compared, got %v: %s", name, form, err, out)
			}
		}
		if out, err := try(t, append([]string{"driver", "check"}, c.args...)...); exitCode(err) != c.code || out != "" {
			t.Errorf("%s: want exit code %d and the error alone for people, got %v and %q", name, c.code, err, out)
		}
	}
}

// TestDriverCheckNamesADeadDriver: a driver that dies before it says its name is called what it is known by.
func TestDriverCheckNamesADeadDriver(t *testing.T) {
	for name, known := range map[string]bool{"by its socket": false, "by its definition": true} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		var server *grpc.Server
		server = grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			go server.Stop()
			return status.Error(codes.Unavailable, "going down")
		}))
		go func() { _ = server.Serve(l) }() // ends with the driver
		t.Cleanup(server.Stop)
		args, want := []string{"driver", "check", "--socket", "unix://" + path}, "unix://"+path
		if known {
			args, want = append(args, "--driver", "hostpath"), "hostpath"
		}
		out, err := try(t, args...)
		if exitCode(err) != 1 || !strings.Contains(out, "driver "+want+" ") || !strings.Contains(err.Error(), "driver "+want+": ") {
			t.Errorf("%s: want exit code 1 and the driver called %q, got %v:\n%s", name, want, err, out)
		}
	}
}

// TestDriverCheckReadsAPipe: a definition may come out of another program, and is read once.
func TestDriverCheckReadsAPipe(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text := "apiVersion: headroom/v1alpha1\nkind: Driver\nname: disk\nlimit: fixed\nfigures: {minInterval: 1s, cacheAge: 1s, lastGoodLife: 1h}\n" +
		`node: {command: [/bin/sh, -c, "echo out of luck; exit 9", "${ENDPOINT} ${DRIVER_NAME} ${NODE_ID}"]}` + "\n"
	if _, err := out.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := try(t, "driver", "check", "--driver", fmt.Sprintf("/dev/fd/%d", in.Fd())); exitCode(err) != 1 || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("want the driver of the definition started, got %v", err)
	}
}

// TestDriverCheckMissesCauses shows that a cause without a program is bad input to all who would need it, before anything is started.
func TestDriverCheckMissesCauses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	text := `apiVersion: headroom/v1alpha1
kind: Driver
name: disk
limit: own
figures: {minInterval: 1s, cacheAge: 1s, lastGoodLife: 1h}
node:
  command: [headroom-hostpathlike, "--endpoint=${ENDPOINT}", "--drivername=${DRIVER_NAME}", "--nodeid=${NODE_ID}", "--statedir=${STATE_DIR}", "--enable-attach"]
causes:
  limit: {command: [./nope, "${LIMIT}"]}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"lint", path}, {"check", "--driver", path}, {"check", "--driver", path, "--socket", "unix:///none"}} {
		out, err := try(t, append([]string{"driver"}, args...)...)
		if exitCode(err) != 2 || !strings.HasPrefix(err.Error(), path+":9: causes.limit.command[0]: stat ") || !strings.Contains(err.Error(), "(remedy: build it") || strings.Contains(out, "limit-sane") {
			t.Errorf("%q: want the program missed, exit code 2, got %v:\n%s", args, err, out)
		}
	}
}

// TestDriverCheckPrints shows the report of a driver that is violated, for people and for programs.
func TestDriverCheckPrints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	text := `apiVersion: headroom/v1alpha1
kind: Driver
name: disk
limit: fixed
figures: {minInterval: 1s, cacheAge: 1s, lastGoodLife: 1h}
node:
  command: [headroom-hostpathlike, "--endpoint=${ENDPOINT}", "--drivername=${DRIVER_NAME}", "--nodeid=${NODE_ID}", "--statedir=${STATE_DIR}",
    "--enable-attach"]
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := try(t, "driver", "check", "--driver", path, "-o", "json")
	if exitCode(err) != 1 || !strings.Contains(err.Error(), "1 violated") {
		t.Fatalf("want exit code 1 and why, got %v", err)
	}
	from, to := strings.Index(out, "{\n"), strings.LastIndex(out, "}")
	var r drivercheck.Report
	if err := json.Unmarshal([]byte(out[from:to+1]), &r); err != nil || r.Conclusion != drivercheck.Failure || r.Driver != "check.disk.headroom.test" {
		t.Errorf("want a report, got %v from %s", err, out)
	}
	out, err = try(t, "driver", "check", "--driver", path)
	if exitCode(err) != 1 || !strings.Contains(out, "limit-sane") || !strings.Contains(out, "which means none") {
		t.Errorf("want the table, got %v:\n%s", err, out)
	}
}
