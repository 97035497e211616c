package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/entry"
)

// Needs of a cell, measured on 2 nodes and rounded up.
const (
	inotifyBase     = 16               // instances that the control plane and the rest take
	inotifyPerNode  = 6                // instances that a kubelet takes
	memoryBase      = 1 << 30          // bytes of the control plane
	memoryPerNode   = 100 << 20        // bytes of a kubelet, its agent and a driver
	diskForRun      = 512 << 20        // bytes of logs and events of a long run
	programDoctor   = "doctor"         // makes a cell's namespaces and ends
	doctorTimeLimit = 10 * time.Second // for programDoctor
	mebibyte        = uint64(1024 * 1024)
)

// Need is something that a machine must have for a cell.
type Need struct {
	Name string
	// Err is what is missing; nil when nothing is.
	Err error
	// Detail says what was found.
	Detail string
	// Remedy is the command that mends it.
	Remedy string
}

func init() { entry.Register(programDoctor, doctorMain) }

// doctorMain makes the mounts and the network of a cell and ends.
func doctorMain([]string) int {
	if err := isolate(nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Diagnose looks at the machine for a cell of so many nodes with its run directory below dir. Every need is in the answer, met or not.
func Diagnose(ctx context.Context, dir string, nodes int) []Need {
	return []Need{diagnoseNamespaces(ctx), diagnoseInotify("/proc", nodes), diagnoseMemory("/proc", nodes), diagnoseDisk(dir)}
}

// diagnoseNamespaces makes the namespaces, mounts and network of a cell for real.
func diagnoseNamespaces(ctx context.Context) Need {
	n := Need{Name: "namespaces", Detail: "PID, mount and network namespaces, as root"}
	if os.Geteuid() != 0 {
		n.Detail = "user, PID, mount and network namespaces, as an ordinary user"
		if err := userNamespaces("/proc"); err != nil {
			n.Err, n.Remedy = err, err.Remedy
			return n
		}
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeLimit)
	defer cancel()
	cmd := entry.Command(programDoctor)
	cmd.SysProcAttr = namespaces()
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		env := namespaceError(err)
		n.Err, n.Remedy = env.Err, env.Remedy
		return n
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		env := namespaceError(fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String())))
		n.Err, n.Remedy = env.Err, env.Remedy
	}
	return n
}

// namespaceError explains why namespaces could not be made.
func namespaceError(err error) *cluster.EnvironmentError {
	e := &cluster.EnvironmentError{Op: "make namespaces", Err: err, Remedy: "run as root, or in an environment that may create namespaces (a container needs --privileged)"}
	if os.Geteuid() != 0 {
		if known := userNamespaces("/proc"); known != nil {
			return known
		}
		if sysctl("/proc", "kernel/apparmor_restrict_unprivileged_userns") == "1" {
			e.Remedy = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0   (AppArmor restricts user namespaces here), or run as root"
		}
	}
	return e
}

// userNamespaces says whether the kernel's settings below proc forbid user namespaces to ordinary users.
func userNamespaces(proc string) *cluster.EnvironmentError {
	op := "make a user namespace"
	if v := sysctl(proc, "user/max_user_namespaces"); v == "0" {
		return &cluster.EnvironmentError{Op: op, Err: errors.New("user.max_user_namespaces is 0: no user may make one"),
			Remedy: "sudo sysctl -w user.max_user_namespaces=15000, or run as root"}
	}
	if v := sysctl(proc, "kernel/unprivileged_userns_clone"); v == "0" {
		return &cluster.EnvironmentError{Op: op, Err: errors.New("kernel.unprivileged_userns_clone is 0: only root may make one"),
			Remedy: "sudo sysctl -w kernel.unprivileged_userns_clone=1, or run as root"}
	}
	if _, err := os.Stat(filepath.Join(proc, "self/ns/user")); err != nil {
		return &cluster.EnvironmentError{Op: op, Err: errors.New("this kernel has no user namespaces"), Remedy: "run as root"}
	}
	return nil
}

// sysctl reads a setting; "" when it does not exist.
func sysctl(proc, name string) string {
	b, err := os.ReadFile(filepath.Join(proc, "sys", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func diagnoseInotify(proc string, nodes int) Need {
	want := inotifyBase + nodes*inotifyPerNode
	n := Need{Name: "inotify instances"}
	got, err := strconv.Atoi(sysctl(proc, "fs/inotify/max_user_instances"))
	if err != nil {
		n.Detail = "the kernel does not say its limit"
		return n
	}
	n.Detail = fmt.Sprintf("limit %d, %d nodes need about %d", got, nodes, want)
	if got < want {
		n.Err = fmt.Errorf("fs.inotify.max_user_instances is %d, %d nodes need about %d", got, nodes, want)
		n.Remedy = fmt.Sprintf("sudo sysctl -w fs.inotify.max_user_instances=%d", 2*want)
	}
	return n
}

// inotifyLeft says whether the kubelets of so many more nodes find the inotify instances that they need, of those that the kernel gives to one user. It
// takes them for a moment, since the kernel does not tell how many are taken. A kubelet that finds none ends.
func inotifyLeft(nodes int, take func() (int, error), free func(int) error) error {
	want := nodes * inotifyPerNode
	var taken []int
	var err error
	for err == nil && len(taken) < want {
		var fd int
		if fd, err = take(); err == nil {
			taken = append(taken, fd)
		}
	}
	for _, fd := range taken {
		_ = free(fd) // closing what was just opened does not fail
	}
	if err == nil {
		return nil
	}
	return &cluster.EnvironmentError{
		Op: fmt.Sprintf("make %d nodes", nodes), Err: fmt.Errorf("%d inotify instances are left, their kubelets need %d: %w", len(taken), want, err),
		Remedy: fmt.Sprintf("end other clusters, or sudo sysctl -w fs.inotify.max_user_instances=%d", 2*(inotifyBase+want)),
	}
}

func diagnoseMemory(proc string, nodes int) Need {
	n := Need{Name: "memory"}
	want := uint64(memoryBase + nodes*memoryPerNode)
	b, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		n.Err = err
		return n
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemAvailable:" {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			break
		}
		n.Detail = fmt.Sprintf("%d MiB available, %d nodes need about %d MiB", kib/1024, nodes, want/mebibyte)
		if kib*1024 < want {
			n.Err = fmt.Errorf("%d MiB available, %d nodes need about %d MiB", kib/1024, nodes, want/mebibyte)
			n.Remedy = "free memory, or use fewer --nodes"
		}
		return n
	}
	n.Err = fmt.Errorf("%s/meminfo does not say how much memory is available", proc)
	return n
}

func diagnoseDisk(dir string) Need {
	n := Need{Name: "disk"}
	var s unix.Statfs_t
	if err := unix.Statfs(existing(dir), &s); err != nil {
		n.Err = fmt.Errorf("disk of %s: %w", dir, err)
		return n
	}
	free := s.Bavail * uint64(s.Bsize)
	n.Detail = fmt.Sprintf("%d MiB free for %s, a run needs about %d MiB", free/mebibyte, dir, diskForRun/mebibyte)
	if free < diskForRun {
		n.Err = fmt.Errorf("%d MiB free for %s, a run needs about %d MiB", free/mebibyte, dir, diskForRun/mebibyte)
		n.Remedy = "free space there, or choose another --run-dir"
	}
	return n
}

// existing is the nearest directory at or above dir that exists.
func existing(dir string) string {
	dir, err := filepath.Abs(dir)
	for err == nil && dir != "/" {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "/"
}

// Preflight finds, at no cost, what would stop a cell from being made at all.
func Preflight() error {
	if os.Geteuid() != 0 {
		if err := userNamespaces("/proc"); err != nil {
			return err
		}
	}
	return nil
}
