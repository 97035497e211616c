package binaries

import (
	"path"

	"headroom/e2e/framework/versions"
)

// What a node image has besides the release itself. One version of each for all releases: a node image differs from another by Kubernetes only.
const (
	containerdVersion versions.Version = "v2.3.7"
	cniVersion        versions.Version = "v1.9.1"
)

// OfNode returns what a node image needs in addition to Of: the rest of Kubernetes, the container runtime and the pod network.
func OfNode(r versions.Release) Set {
	kubernetes := func(name string, asks ...string) Component {
		c := kubernetesComponent(r, name)
		c.Asks = asks
		return c
	}
	set := Set{kubernetes("kubeadm", "version", "-o", "short"), kubernetes("kubectl", "version", "--client"), kubernetes("kube-proxy")}
	const containerd = "github.com/containerd/containerd/v2"
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		c := Component{
			Name: name, Version: containerdVersion, Module: containerd, Package: containerd + "/cmd/" + name,
			Stamps: []string{containerd + "/version.Version=" + containerdVersion.String()},
			// Snapshotters that a node does not use; overlayfs stays.
			Tags: "no_btrfs,no_zfs,no_devmapper,no_aufs",
			Says: containerdVersion.String(),
		}
		if name == "containerd-shim-runc-v2" {
			c.Asks, c.Line = []string{"-v"}, 1 // The first line is its name.
		}
		set = append(set, c)
	}
	const plugins = "github.com/containernetworking/plugins"
	for _, dir := range []string{"ipam/host-local", "main/loopback", "main/ptp", "meta/portmap"} {
		set = append(set, Component{
			Name: path.Base(dir), Version: cniVersion, Module: plugins, Package: plugins + "/plugins/" + dir,
			Stamps: []string{plugins + "/pkg/utils/buildversion.BuildVersion=" + cniVersion.String()},
			Says:   cniVersion.String(),
		})
	}
	return set
}

// Select returns the named components of a release, a node image's included; no names, those of Of. The error for an unknown name lists the known
// ones.
func Select(r versions.Release, names []string) (Set, error) {
	if len(names) == 0 {
		return Of(r), nil
	}
	return append(Of(r), OfNode(r)...).Select(names)
}
