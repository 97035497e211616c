package binaries

import (
	"path"
	"slices"

	"headroom/e2e/framework/versions"
)

// What a node image has besides the release itself. One version of each for all releases: a node image differs from another by Kubernetes only.
const (
	containerdVersion versions.Version = "v2.3.7"
	cniVersion        versions.Version = "v1.9.1"
	// CoreDNSVersion is the one that kubeadm of the default release asks for; others are told to take it.
	CoreDNSVersion versions.Version = "v1.14.2"
)

// coreDNSMain is CoreDNS with the plugins of kubeadm's configuration and no others: its own program brings the clients of three clouds.
const coreDNSMain = `package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() { coremain.Run() }
`

// OfNode returns what a node image needs in addition to Of: the rest of Kubernetes, the container runtime, the pod network and the cluster's DNS.
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
	const coreDNS = "github.com/coredns/coredns"
	set = append(set, Component{
		Name: "coredns", Version: CoreDNSVersion, Module: coreDNS, Package: coreDNS, Main: coreDNSMain, Asks: []string{"-version"}, Says: "CoreDNS-" + CoreDNSVersion.Number(),
	})
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

// Select returns the named components: of a release, a node image's included, and those that a driver may ask for; no names, those of Of. The error for
// an unknown name lists the known ones.
func Select(r versions.Release, provisioner versions.Version, names []string) (Set, error) {
	if len(names) == 0 {
		return Of(r), nil
	}
	return slices.Concat(Of(r), OfNode(r), OfDriver(provisioner)).Select(names)
}
