package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
