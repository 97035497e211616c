// Package entry lets one binary be several programs.
//
// A cluster's inner programs (the cell's first process, node agents, drivers, the quota backend) are this same executable, run again under
// another name: no second build, and `go test` binaries can be clusters too. Programs register themselves by name; main and TestMain call
// Dispatch before anything else. It starts nothing by itself.
package entry

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// prefix marks argv[0] of a program, and is what `ps` shows.
const prefix = "headroom:"

var programs = map[string]func(args []string) int{}

// Register makes main runnable as name. It panics when the name is taken, for two programs under one name cannot both be meant.
func Register(name string, main func(args []string) int) {
	if _, taken := programs[name]; taken {
		panic(fmt.Sprintf("entry: program %q registered twice", name))
	}
	programs[name] = main
}

// Command is a command that runs this executable as the named program. The executable is found through /proc/self/exe, which holds even when
// the file was replaced or is hidden by a mount.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = prefix + name
	return cmd
}

// Dispatch runs the program that argv[0] names and exits with its code; it returns when argv[0] names none.
func Dispatch() {
	name, ok := strings.CutPrefix(os.Args[0], prefix)
	if !ok {
		return
	}
	main, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "headroom: no program %q in this binary\n", name)
		os.Exit(2)
	}
	os.Exit(main(os.Args[1:]))
}
