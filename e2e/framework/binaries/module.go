package binaries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"headroom/e2e/framework/versions"
)

// writeModule makes dir a module that requires c's and otherwise equals it. A module's own replace and godebug lines do not count when it is a
// dependency, so they are copied; its go.sum comes along, so that what its authors verified is what is built.
func writeModule(ctx context.Context, c Component, dir string, env []string) error {
	// Without a go.mod here, the command would look for one in the directories above.
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+generated+c.Name+"\n"), 0o644); err != nil {
		return err
	}
	found, err := download(ctx, dir, env, c.Module+"@"+c.Version.String())
	if err != nil {
		return err
	}
	text, err := os.ReadFile(found.GoMod)
	if err != nil {
		return err
	}
	module, err := generate(c, found.GoMod, text)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), module, 0o644); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(found.Dir, "go.sum"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // The go command then asks the checksum database.
	} else if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644)
}

// downloaded is where a module lies.
type downloaded struct{ Dir, GoMod, Error string }

// download fetches a module, given as path@version, into the module cache.
func download(ctx context.Context, dir string, env []string, module string) (found downloaded, err error) {
	out, err := run(ctx, dir, env, "mod", "download", "-json", module)
	if bad := json.Unmarshal(out, &found); err == nil && bad != nil {
		err = fmt.Errorf("go mod download -json: %w", bad)
	}
	if found.Error != "" { // It says more than the exit code.
		err = &commandError{command: "go mod download " + module, output: found.Error, err: errors.New("failed")}
	}
	return found, err
}

// ModuleDir returns the directory of a module's files, for parts that are not programs.
func ModuleDir(ctx context.Context, module string, v versions.Version) (string, error) {
	found, err := download(ctx, "/", nil, module+"@"+v.String()) // the root has no go.mod that could ask for another version
	if err != nil {
		root, _ := CacheRoot() // for the remedy only
		return "", explain(ctx, "fetch "+module+" "+v.String(), root, err)
	}
	return found.Dir, nil
}

// generated begins the path of generated modules. It shows nowhere in the binaries.
const generated = "headroom.build/"

// generate writes the go.mod for building c from its own go.mod, text.
func generate(c Component, file string, text []byte) ([]byte, error) {
	from, err := modfile.Parse(file, text, nil)
	if err != nil {
		return nil, err
	}
	if from.Go == nil {
		return nil, fmt.Errorf("%s: no go line", file)
	}
	to := &modfile.File{}
	add := []error{to.AddModuleStmt(generated + c.Name), to.AddGoStmt(from.Go.Version), to.AddRequire(c.Module, c.Version.String())}
	for _, g := range from.Godebug {
		add = append(add, to.AddGodebug(g.Key, g.Value))
	}
	for _, r := range from.Replace {
		path, version := r.New.Path, r.New.Version
		switch {
		case version != "":
		case strings.HasPrefix(path, "./staging/"):
			// Published under its own name, v0.36.3 for Kubernetes v1.36.3.
			path, version = r.Old.Path, fmt.Sprintf("v0.%s", strings.TrimPrefix(c.Version.Number(), "1."))
		default:
			continue // A directory of the repository; its published version is in the require lines.
		}
		add = append(add, to.AddReplace(r.Old.Path, r.Old.Version, path, version))
	}
	if err := errors.Join(add...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	to.Cleanup()
	return to.Format()
}
