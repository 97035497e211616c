package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

// matrixOf runs the command and returns what it printed.
func matrixOf(t *testing.T, args string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := matrixCommand()
	cmd.SetArgs(strings.Fields(args))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestMatrixUsage(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--from 1.20", `--from: kubernetes minor release "1.20" is not known; known: v1.32.13`},
		{"--to newest", `--to: version "newest": want MAJOR.MINOR.PATCH`},
		{"--from 1.36 --to 1.34", "--from v1.36.3 is newer than --to v1.34.4"},
		{"--attacher 4.9", `--attacher: external-attacher version "v4.9" is not known; known: v4.11.0`},
		{"--shard 3/2", `--shard "3/2": want an index from 1 to the number of shards`},
		{"--shard all", `--shard "all": want INDEX/NUMBER`},
		{"--output yaml", "--output: want one of table, json, github"},
		{"--output github", "--output github: it is for --list"},
		{"--procs 0", "--procs 0: want 1 to 32"},
		{"--driver nosuch", `"nosuch"`},
		{"--focus nosuch", "no spec matches"},
		{"--focus ^count-stays$ --label-filter smoke --from 1.36 --to 1.36", "no spec that was chosen applies to the versions"},
		{"--binaries mirror", "it needs --mirror"},
		{"extra", `unknown command or argument "extra"`},
		{"--run-dir " + full, "is not empty"},
	} {
		_, err := matrixOf(t, c.args)
		var usage usageError
		var input *cluster.InputError
		if !errors.As(err, &usage) && !errors.As(err, &input) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want a usage error with %q, got %T: %v", c.args, c.want, err, err)
		}
	}
	if _, err := matrixOf(t, "--from 1.36 --to 1.36 --shard 1/9"); err == nil || !strings.Contains(err.Error(), "it has no combination") {
		t.Errorf("an empty shard: got %v", err)
	}
}

// TestMatrixWithoutBinaries: what cannot be had is said before anything runs.
func TestMatrixWithoutBinaries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	_, err := matrixOf(t, "--from 1.36 --to 1.36 --binaries cache --cache "+t.TempDir()+" --run-dir "+dir)
	if exitCode(err) != 2 || !strings.Contains(err.Error(), "is not in the cache") {
		t.Errorf("want exit code 2, got %d: %v", exitCode(err), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("want no run, got %v (%v)", entries, err)
	}
}

func TestMatrixList(t *testing.T) {
	whole, err := matrixOf(t, "--list --from 1.34 --to 1.37")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(whole), "\n")
	silent := 0
	for _, line := range lines[1:] {
		if strings.Contains(line, "silent: ") {
			silent++
		}
		if strings.Contains(line, "v1.33") || strings.Contains(line, "v1.32") {
			t.Errorf("a version outside of the range: %s", line)
		}
	}
	if !strings.HasPrefix(lines[0], "API SERVER") || silent == 0 {
		t.Errorf("want a head and the silent combinations named, got:\n%s", whole)
	}
	every, err := matrixOf(t, "--list --from 1.34 --to 1.37 --all")
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Count(every, "\n"); all <= len(lines) {
		t.Errorf("want more with --all than %d lines, got %d", len(lines), all)
	}
	var parts string
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		part, err := matrixOf(t, "--list --from 1.34 --to 1.37 -o json --shard "+shard)
		if err != nil {
			t.Fatal(err)
		}
		var rows []struct {
			Name string   `json:"name"`
			Args []string `json:"args"`
		}
		if err := json.Unmarshal([]byte(part), &rows); err != nil {
			t.Fatalf("%v in %s", err, part)
		}
		for _, r := range rows {
			parts += r.Name + "\n"
		}
	}
	if n := strings.Count(parts, "\n"); n != len(lines)-1 {
		t.Errorf("want the shards to have %d combinations together, got %d", len(lines)-1, n)
	}
	github, err := matrixOf(t, "--list -o github --from 1.36 --to 1.36")
	if err != nil || !strings.HasPrefix(github, `{"include":[{"name":"api1.36.3-`) || strings.Count(github, "\n") != 1 {
		t.Errorf("got %v\n%s", err, github)
	}
}
