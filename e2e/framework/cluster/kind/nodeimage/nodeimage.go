// Package nodeimage assembles the image of kind's nodes, without a registry: a Debian root with kind's own files in it, the real Kubernetes binaries,
// containerd, and the images of the control plane.
//
// Contract: Ensure returns the name of an image that the engine holds. Its tag is a hash of all that it is made from, so that an image is made once per
// engine and recipe; the parts are cached on disk, so that another engine gets it in well under a minute. It starts no cluster.
package nodeimage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	imageutils "k8s.io/kubernetes/test/utils/image"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/archive"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/versions"
)

// recipe is raised when the way of making an image changes in a manner that its inputs do not show.
const recipe = "3"

// Repository is the name of all images of this package; the tag is the Kubernetes version and a hash.
const Repository = "headroom.dev/node"

// Options say which image.
type Options struct {
	Kubernetes versions.Version
	// WorkerOnly leaves out what only a control plane needs, which takes most of the time to build.
	WorkerOnly bool
	// Proxy is kube-proxy's version, which all nodes of a cluster have from its control plane; zero means Kubernetes.
	Proxy versions.Version
	// Cache is the root of the cache of parts; "" means the user's.
	Cache string
	// From says where binaries come from that the cache does not have.
	From binaries.Origin
	// Out receives progress; nil discards it.
	Out io.Writer
}

func (o Options) say(format string, args ...any) {
	if o.Out != nil {
		_, _ = fmt.Fprintf(o.Out, "  "+format+"\n", args...) // what cannot be shown is not worth failing for
	}
}

// proxy is the name of kube-proxy, as a binary and as an image.
const proxy = "kube-proxy"

// Components are the names of the binaries in an image that have the node's own version.
func (o Options) Components(r versions.Release) []string {
	names := append(binaries.OfNode(r).Names(), "kubelet")
	names = slices.DeleteFunc(names, func(n string) bool { return n == proxy || o.WorkerOnly && n == "kubectl" })
	if o.WorkerOnly {
		return names
	}
	return append(names, "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
}

// Ensure returns the image's name, after making what is missing of it. That may take tens of minutes the first time. Failures are
// *cluster.EnvironmentError.
func Ensure(ctx context.Context, o Options) (string, error) {
	release, err := versions.Lookup(o.Kubernetes)
	if err != nil {
		return "", err
	}
	if err := engine.Check(ctx); err != nil {
		return "", err
	}
	base, err := debian(ctx, o)
	if err != nil {
		return "", cluster.Environment("make the root of a node", err)
	}
	if err := base.checkPrivileged(ctx); err != nil {
		return "", cluster.Environment("try the container engine", err)
	}
	paths, err := binaries.Ensure(ctx, binaries.Options{Cache: o.Cache, Kubernetes: o.Kubernetes, Components: o.Components(release), From: o.From, Out: o.Out})
	if err != nil {
		return "", err
	}
	o.Proxy = cmp.Or(o.Proxy, o.Kubernetes)
	proxies, err := binaries.Ensure(ctx, binaries.Options{Cache: o.Cache, Kubernetes: o.Proxy, Components: []string{proxy}, From: o.From, Out: o.Out})
	if err != nil {
		return "", err
	}
	paths[proxy] = proxies[proxy]
	b := builder{options: o, release: release, paths: paths, base: base}
	ref := b.ref()
	has, err := engine.HasImage(ctx, ref)
	if err != nil || has {
		return ref, cluster.Environment("look for the node image", err)
	}
	began := time.Now()
	o.say("node image %s: assembling ...", release.Version)
	if err := b.build(ctx, ref); err != nil {
		return "", cluster.Environment("assemble the node image", err)
	}
	o.say("node image %s: assembled in %.0fs", release.Version, time.Since(began).Seconds())
	return ref, nil
}

// builder makes one image.
type builder struct {
	options Options
	release versions.Release
	paths   binaries.Paths
	base    root
}

// ref names the image by what it is made from: the places of its parts in the cache are hashes of theirs.
func (b builder) ref() string {
	sum := sha256.New()
	fmt.Fprint(sum, recipe, b.base.key, containerdConfig, podNetwork, manifests, protocols)
	for _, name := range append(b.options.Components(b.release), proxy) {
		fmt.Fprintln(sum, filepath.Base(filepath.Dir(b.paths[name].Path)))
	}
	return fmt.Sprintf("%s:%s-%s", Repository, b.release.Version, hex.EncodeToString(sum.Sum(nil))[:12])
}

// protocols are those that a Service can have; nft looks them up by name.
const protocols = "tcp 6 TCP\nudp 17 UDP\nsctp 132 SCTP\n"

// images are what containerd holds from the start: what kubeadm asks for, under the names that it uses, and what test pods run.
func (b builder) images(ctx context.Context) ([]archive.Image, error) {
	out, err := exec.CommandContext(ctx, b.paths["kubeadm"].Path, "config", "images", "list", "--kubernetes-version", b.release.Version.String()).Output()
	if err != nil {
		return nil, fmt.Errorf("ask kubeadm for its images: %w", err)
	}
	busybox := archive.File{Path: "/bin/busybox", From: b.base.busybox}
	var all []archive.Image
	for _, ref := range strings.Fields(string(out)) {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		name, _, _ = strings.Cut(name, ":")
		i := archive.Image{Ref: ref}
		binary, has := b.paths[name]
		switch {
		case name == "pause":
			i.Files, i.Entrypoint = []archive.File{busybox}, []string{"/bin/busybox", "sleep", "infinity"}
		case !has:
			continue // a worker's control plane
		case name == "coredns":
			i.Ref, i.Files, i.Entrypoint = retag(ref, binary.Version), []archive.File{{Path: "/coredns", From: binary.Path}}, []string{"/coredns"}
		case name == proxy:
			i.Ref = retag(ref, binary.Version)
			if i.Files, err = b.base.program("/usr/sbin/nft"); err != nil {
				return nil, err
			}
			i.Files = append(i.Files, archive.File{Path: "/usr/local/bin/" + name, From: binary.Path}, archive.File{Path: "/etc/protocols", Data: []byte(protocols), Mode: 0o644})
		default:
			i.Files = []archive.File{{Path: "/usr/local/bin/" + name, From: binary.Path}}
		}
		all = append(all, i)
	}
	test := archive.Image{Ref: imageutils.GetE2EImage(imageutils.BusyBox), Files: []archive.File{busybox}}
	for _, name := range []string{"sh", "sleep", "true", "cat", "ls", "echo", "df", "mount", "touch"} {
		test.Files = append(test.Files, archive.File{Path: "/bin/" + name, Link: "busybox"})
	}
	return append(all, test), nil
}

// retag gives an image's name another version.
func retag(ref string, v versions.Version) string {
	return ref[:strings.LastIndexByte(ref, ':')+1] + v.String()
}

// sandbox is the name of the pause image among the images.
func sandbox(images []archive.Image) (string, error) {
	for _, i := range images {
		if strings.Contains(i.Ref, "/pause:") {
			return i.Ref, nil
		}
	}
	return "", fmt.Errorf("kubeadm names no pause image")
}
