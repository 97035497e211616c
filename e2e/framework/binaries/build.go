package binaries

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build is the Source that compiles Go modules, each component in a generated module that has exactly the requirements of its release. Modules
// come from wherever the go command is set to find them, and its checksum verification stays as it is.
type Build struct {
	mu         sync.Mutex
	toolchains map[string][]string // what is known of them, by Component.Toolchain
}

// recipe is raised when the way of building changes in a manner that the other inputs do not show.
const recipe = "1"

func (*Build) Name() string { return "build" }

// Offers is true: every component has a module.
func (*Build) Offers(Component) bool { return true }

func (*Build) Words() (doing, done string) { return "building", "built" }

// Inputs asks the go command for its release and target.
func (b *Build) Inputs(ctx context.Context, c Component) ([]string, error) {
	with, err := b.toolchain(ctx, c)
	if err != nil {
		return nil, err
	}
	inputs := append([]string{"recipe=" + recipe, "module=" + c.Module + "@" + c.Version.String()}, with...)
	for _, a := range buildArgs(c, "") {
		inputs = append(inputs, "arg="+a)
	}
	if c.Main != "" {
		inputs = append(inputs, "main="+strconv.Quote(c.Main))
	}
	for _, e := range fixedEnv() {
		inputs = append(inputs, "env."+e)
	}
	return inputs, nil
}

// toolchainEnv chooses the toolchain that builds c; the go command fetches one that is not there.
func toolchainEnv(c Component) []string {
	if c.Toolchain == "" {
		return nil
	}
	return []string{"GOTOOLCHAIN=" + c.Toolchain}
}

// toolchain lists what the go command's release and target add to the inputs of c. It asks once for each toolchain.
func (b *Build) toolchain(ctx context.Context, c Component) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.toolchains[c.Toolchain]; ok {
		return known, nil
	}
	names := []string{"GOVERSION", "GOEXPERIMENT", "GOFIPS140", "GOAMD64", "GOARM64"}
	// The root has no go.mod that could select another toolchain.
	out, err := run(ctx, "/", toolchainEnv(c), append([]string{"env", "-json"}, names...)...)
	if err != nil {
		return nil, err
	}
	var values map[string]string
	if err := json.Unmarshal(out, &values); err != nil {
		return nil, fmt.Errorf("go env -json: %w", err)
	}
	var inputs []string
	for _, n := range names {
		inputs = append(inputs, strings.ToLower(n)+"="+values[n])
	}
	if b.toolchains == nil {
		b.toolchains = map[string][]string{}
	}
	b.toolchains[c.Toolchain] = inputs
	return inputs, nil
}

// fixedEnv is set for every go command: the caller's go.work, GOFLAGS or target must not change what is built.
func fixedEnv() []string {
	return []string{"CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off", "GO111MODULE=on", "GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH}
}

func buildArgs(c Component, file string) []string {
	ldflags := "-s -w"
	for _, s := range c.Stamps {
		ldflags += " -X " + s
	}
	args := []string{"build", "-buildvcs=false", "-o", file, "-ldflags", ldflags}
	if c.Tags != "" {
		args = append(args, "-tags", c.Tags)
	}
	if c.Main != "" {
		return append(args, ".")
	}
	return append(args, c.Package)
}

// Fetch builds c.
func (*Build) Fetch(ctx context.Context, c Component, file, scratch string) error {
	module, work := filepath.Join(scratch, "module"), filepath.Join(scratch, "work")
	for _, dir := range []string{module, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	// The linker's temporary files are as large as the binary: they go where leftovers are swept.
	env := append(toolchainEnv(c), "GOTMPDIR="+work)
	if err := writeModule(ctx, c, module, env); err != nil {
		return err
	}
	if c.Main != "" {
		if err := os.WriteFile(filepath.Join(module, "main.go"), []byte(c.Main), 0o644); err != nil {
			return err
		}
	}
	_, err := run(ctx, module, env, buildArgs(c, file)...)
	return err
}

// commandError is a go command that failed.
type commandError struct {
	command string
	output  string
	err     error
}

func (e *commandError) Error() string {
	s := fmt.Sprintf("%s: %v", e.command, e.err)
	if e.output != "" {
		s += "\n    " + strings.ReplaceAll(tail(e.output, 20), "\n", "\n    ")
	}
	return s
}

func (e *commandError) Unwrap() error { return e.err }

// run runs the go command and returns its standard output. When ctx ends, its whole process group is killed; when this process dies, the
// kernel kills the go command.
func run(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(append(os.Environ(), fixedEnv()...), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	// The death signal comes when the starting thread ends, so it must last as long as the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return stdout.Bytes(), &commandError{command: "go " + quote(args), output: stderr.String(), err: err}
	}
	return stdout.Bytes(), nil
}

// quote writes arguments as a shell would take them.
func quote(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if strings.ContainsAny(a, " \t\"'$") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		b.WriteString(a)
	}
	return b.String()
}
