// Package nodeimage assembles the image of kind's nodes, without a registry: a Debian root with kind's own files in it, the real Kubernetes binaries,
// containerd, and the images of the control plane.
//
// Contract: Ensure returns the name of an image that the engine holds. Its tag is a hash of all that it is made from, so that an image is made once per
// engine and recipe; the parts are cached on disk, so that another engine gets it in well under a minute. It starts no cluster, and it has no addons for Services:
// neither kube-proxy nor CoreDNS.
package nodeimage

import (
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
const recipe = "2"

// Repository is the name of all images of this package; the tag is the Kubernetes version and a hash.
const Repository = "headroom.dev/node"

// Options say which image.
type Options struct {
	Kubernetes versions.Version
	// WorkerOnly leaves out what only a control plane needs, which takes most of the time to build.
	WorkerOnly bool
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

// Components are the names of the binaries in an image.
func (o Options) Components(r versions.Release) []string {
	names := append(binaries.OfNode(r).Names(), "kubelet")
	if o.WorkerOnly {
		return slices.DeleteFunc(names, func(n string) bool { return n == "kubectl" })
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
	paths, err := binaries.Ensure(ctx, binaries.Options{Cache: o.Cache, Kubernetes: o.Kubernetes, Components: o.Components(release), From: o.From, Out: o.Out})
	if err != nil {
		return "", err
	}
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
	fmt.Fprint(sum, recipe, b.base.key, containerdConfig, podNetwork, manifests)
	for _, name := range b.options.Components(b.release) {
		fmt.Fprintln(sum, filepath.Base(filepath.Dir(b.paths[name].Path)))
	}
	return fmt.Sprintf("%s:%s-%s", Repository, b.release.Version, hex.EncodeToString(sum.Sum(nil))[:12])
}

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
			continue // addons for Services, which an assembled node does without, and a worker's control plane
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

// sandbox is the name of the pause image among the images.
func sandbox(images []archive.Image) (string, error) {
	for _, i := range images {
		if strings.Contains(i.Ref, "/pause:") {
			return i.Ref, nil
		}
	}
	return "", fmt.Errorf("kubeadm names no pause image")
}
