package nodeimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/versions"
)

// suite is the Debian release of a node. Not a later one: systemd from version 256 on refuses cgroup v1, which some machines still have.
const suite = "bookworm"

// packages are what kind's own base image has of Debian, and runc, busybox and dbus.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod", "libseccomp2", "pigz",
	"e2fsprogs", "bash", "ca-certificates", "curl", "jq", "procps", "hostname", "findutils", "runc", "busybox-static",
}

// kindVersion is the version of sigs.k8s.io/kind whose files a node has; a test holds it to go.mod.
const kindVersion versions.Version = "v0.33.0"

// settle makes a node of a Debian root, as the Dockerfile of kind's base image does: only what a node needs is started, and nothing that would change
// the machine that the node runs on.
const settle = `set -e
rm -f /lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/* \
	/lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/sockets.target.wants/*udev* /lib/systemd/system/sockets.target.wants/*initctl* \
	/lib/systemd/system/basic.target.wants/*
echo ReadKMsg=no >>/etc/systemd/journald.conf
ln -sf /lib/systemd/systemd /sbin/init
chmod 755 /kind /kind/bin /kind/bin/* /usr/local/bin/*
systemctl enable kubelet.service containerd.service undo-mount-hacks.service
systemctl mask systemd-binfmt.service
mkdir -p /etc/kubernetes/manifests /etc/cni/net.d /opt/cni/bin /kind/manifests
rm -rf /var/cache/apt/* /var/lib/apt/lists/* /usr/share/doc /usr/share/man /usr/share/locale`

// rootRecipe is raised when the way of making a root changes in a manner that the above does not show.
const rootRecipe = "1"

// root is a Debian root that is ready for Kubernetes, of any version.
type root struct {
	// tar holds it all.
	tar string
	// busybox is a static one.
	busybox string
	key     string
}

// debian returns the root, made at most once per machine.
func debian(ctx context.Context, o Options) (root, error) {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{suite, kindVersion.String(), settle, rootRecipe}, packages...), "\n")))
	key := "node-root-" + suite + "-" + hex.EncodeToString(sum[:])[:16]
	began := time.Now()
	made := false
	dir, err := binaries.Place(ctx, o.Cache, key, func(holder string) { o.say("node root: another process%s makes it", holder) }, func(ctx context.Context, dir string) error {
		made = true
		o.say("node root: Debian %s ...", suite)
		return fill(ctx, dir)
	})
	if made && err == nil {
		o.say("node root: made in %.0fs", time.Since(began).Seconds())
	}
	return root{tar: filepath.Join(dir, "root.tar"), busybox: filepath.Join(dir, "busybox"), key: key}, err
}

func fill(ctx context.Context, dir string) error {
	if os.Geteuid() != 0 {
		return &cluster.EnvironmentError{Op: "make a Debian root", Err: errors.New("it takes root"), Remedy: "run as root, or give a node image in the topology"}
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		return &cluster.EnvironmentError{Op: "make a Debian root", Err: err, Remedy: "apt-get install debootstrap (`make node-image` does), or give a node image in the topology"}
	}
	files, err := binaries.ModuleDir(ctx, "sigs.k8s.io/kind", kindVersion)
	if err != nil {
		return err
	}
	at := filepath.Join(dir, "root")
	// What debootstrap mounts inside goes with its mount namespace, however it ends.
	if err := command(ctx, "unshare", "--mount", "--propagation", "private", "debootstrap", "--variant=minbase", "--include="+strings.Join(packages, ","), suite, at); err != nil {
		return err
	}
	if err := copyTree(filepath.Join(files, "images", "base", "files"), at); err != nil {
		return fmt.Errorf("copy kind's files: %w", err)
	}
	if err := command(ctx, "chroot", at, "/bin/bash", "-c", settle); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(at, "bin", "busybox"), filepath.Join(dir, "busybox"), 0o755); err != nil {
		return err
	}
	if err := command(ctx, "tar", "-C", at, "--numeric-owner", "-cf", filepath.Join(dir, "root.tar"), "."); err != nil {
		return err
	}
	return os.RemoveAll(at)
}

// command runs a program with all its children ended when ctx is.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %w; its last words:\n    %s", name, err, strings.Join(lines[max(0, len(lines)-10):], "\n    "))
	}
	return nil
}

// copyTree copies the regular files below from.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		return copyFile(path, filepath.Join(to, rel), 0o644)
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
