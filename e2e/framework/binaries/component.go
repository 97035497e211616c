package binaries

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"headroom/e2e/framework/versions"
)

// Component is a program and where its source is.
type Component struct {
	// Name is the name of the executable: "kube-apiserver".
	Name    string
	Version versions.Version
	// Module is the Go module that has the program, at Version.
	Module string
	// Package is the import path of the program.
	Package string
	// Main is the source of a main package to build in place of Package: a program that its module lets one put together from its parts.
	Main string
	// Stamps are linker settings that tell the program its version, as "importpath.variable=value".
	Stamps []string
	// Tags are build tags, separated by commas.
	Tags string
	// Asks are the arguments that make the program print its version; none means --version.
	Asks []string
	// Line is the line of that, counted from 0, which ends in Says.
	Line int
	// Says is the word by which the program names its version.
	Says string
	// Toolchain is the Go release that builds it, such as "go1.27.3"; "" is the one at hand.
	Toolchain string
}

// Set is components in the order in which they are best made.
type Set []Component

// Of returns the components of a release: the control plane, the kubelet, etcd, external-attacher. The Kubernetes ones come first: they share
// most of their compiled packages.
func Of(r versions.Release) Set {
	var set Set
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		set = append(set, kubernetesComponent(r, name))
	}
	return append(set, Component{
		Name:    "etcd",
		Version: r.Etcd,
		Module:  "go.etcd.io/etcd/server/v3",
		Package: "go.etcd.io/etcd/server/v3", // The root of the module is the program; its version is a constant.
		Says:    r.Etcd.Number(),
	}, Component{
		Name:    "csi-attacher",
		Version: r.Attacher,
		Module:  "github.com/kubernetes-csi/external-attacher/v4",
		Package: "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
		Stamps:  []string{"main.version=" + r.Attacher.String()},
		Says:    r.Attacher.String(),
	})
}

// OfDriver returns what runs beside a driver only where its definition asks for it: external-provisioner, at the version given.
func OfDriver(provisioner versions.Version) Set {
	const module = "github.com/kubernetes-csi/external-provisioner/v5"
	return Set{{
		Name:    versions.ProvisionerComponent,
		Version: provisioner,
		Module:  module,
		Package: module + "/cmd/" + versions.ProvisionerComponent,
		Stamps:  []string{"main.version=" + provisioner.String()},
		Says:    provisioner.String(),
	}}
}

// kubernetesModule is the Go module of Kubernetes itself.
const kubernetesModule = "k8s.io/kubernetes"

func kubernetesComponent(r versions.Release, name string) Component {
	const variable = "k8s.io/component-base/version.git"
	return Component{
		Name:    name,
		Version: r.Version,
		Module:  kubernetesModule,
		Package: kubernetesModule + "/cmd/" + name,
		Stamps: []string{
			variable + "Version=" + r.Version.String(),
			fmt.Sprintf("%sMajor=%d", variable, r.Version.Major()),
			fmt.Sprintf("%sMinor=%d", variable, r.Version.Minor()),
		},
		Says:      r.Version.String(),
		Toolchain: r.Toolchain,
	}
}

// Names lists the components.
func (s Set) Names() []string {
	names := make([]string, 0, len(s))
	for _, c := range s {
		names = append(names, c.Name)
	}
	return names
}

// Select keeps the named components, in the order of s; no names keep all. The error for an unknown name lists the known ones.
func (s Set) Select(names []string) (Set, error) {
	for _, name := range names {
		if !slices.Contains(s.Names(), name) {
			return nil, fmt.Errorf("component %q is not known; known: %s", name, strings.Join(s.Names(), ", "))
		}
	}
	if len(names) == 0 {
		return s, nil
	}
	var kept Set
	for _, c := range s {
		if slices.Contains(names, c.Name) {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// keyDigits of a SHA-256 keep keys readable and cannot collide by accident.
const keyDigits = 16

// key names the place of a component in the cache: readable, and different for different inputs.
func key(c Component, inputs []string) string {
	sum := sha256.Sum256([]byte(strings.Join(inputs, "\n")))
	return fmt.Sprintf("%s-%s-%s-%s-%s", c.Name, c.Version, runtime.GOOS, runtime.GOARCH, hex.EncodeToString(sum[:])[:keyDigits])
}
