package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// isolate makes the file system and the network of a cell, from inside its new namespaces: private mounts, a fresh /proc, an empty /var/lib in
// memory, no name servers, and one interface with a default route. preserve lists directories that stay visible.
func isolate(preserve []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := cover("/var/lib", preserve); err != nil {
		return err
	}
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		return err
	}
	if err := hideNameServers(); err != nil {
		return err
	}
	return network()
}

// cover mounts an empty tmpfs over dir and binds what is preserved below it back to its place.
func cover(dir string, preserve []string) (err error) {
	type kept struct {
		path string
		file *os.File
	}
	var keep []kept
	defer func() {
		for _, k := range keep {
			err = errors.Join(err, k.file.Close())
		}
	}()
	for _, path := range preserve {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return fmt.Errorf("preserve %s: %w", path, err)
		}
		if !strings.HasPrefix(real, dir+"/") {
			continue
		}
		fd, err := unix.Open(real, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("preserve %s: %w", path, err)
		}
		keep = append(keep, kept{path: real, file: os.NewFile(uintptr(fd), real)})
	}
	if err := unix.Mount("headroom", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
	}
	for _, k := range keep {
		if err := os.MkdirAll(k.path, 0o755); err != nil {
			return err
		}
		// Recursive, because a user namespace may not reveal what lies under a mount that it inherited.
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", k.file.Fd()), k.path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s back: %w", k.path, err)
		}
	}
	return nil
}

// hideNameServers puts an empty file over resolv.conf: without a network, every look-up would wait for a time-out.
func hideNameServers() error {
	const resolv = "/etc/resolv.conf"
	if _, err := os.Stat(resolv); errors.Is(err, os.ErrNotExist) {
		return nil // a name server that is not configured is not waited for
	}
	empty := filepath.Join(stateDir, "resolv.conf")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		return err
	}
	if err := unix.Mount(empty, resolv, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", resolv, err)
	}
	return nil
}

// network brings up the loopback and a veth pair whose only use is to have an address and a default route: the kubelet derives its node's address
// from them.
func network() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set the loopback up: %w", err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "cell0"}, PeerName: "cell1"}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("add a veth pair: %w", err)
	}
	if err := netlink.AddrAdd(veth, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(cellAddress), Mask: net.CIDRMask(24, 32)}}); err != nil {
		return fmt.Errorf("add address %s: %w", cellAddress, err)
	}
	for _, name := range []string{"cell0", "cell1"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: veth.Index, Gw: net.ParseIP(gatewayIP)}); err != nil {
		return fmt.Errorf("add the default route: %w", err)
	}
	return nil
}

// isolateNode gives a node agent, in its new mount namespace, its own /var/lib/kubelet and /var/log: what nodes share by accident on one machine.
func isolateNode(node string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range [][2]string{{"kubelet", kubeletDir}, {"log", "/var/log"}} {
		from := filepath.Join(nodeDir(node), m[0])
		for _, dir := range []string{from, m[1]} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(from, m[1], "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", m[1], err)
		}
	}
	return nil
}
