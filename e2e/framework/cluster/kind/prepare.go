package kind

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/cluster/kind/nodeimage"
	"headroom/e2e/framework/versions"
)

// needDisk is what the engine's disk must have free: nodes unpack images of their own, a node takes about 2 GB.
const needDisk = 3 << 30

// nascent is a cluster to be made: all that can be found out before anything starts.
type nascent struct {
	shape
	options Options
	// images are the node images: the control plane's, then each worker's. own says of each whether nodeimage assembled it.
	images []string
	own    []bool
	// attacher is external-attacher's executable.
	attacher string
	steps    *steps
}

// prepare checks the engine and gets the images. It starts nothing that lasts.
func (p *Provider) prepare(ctx context.Context, v versions.Version) (*nascent, error) {
	o := p.options
	n := &nascent{options: o, steps: newSteps(o.Out), shape: shape{
		Name: "headroom-" + o.Run, Run: o.Run, RunDir: o.RunDir, Kubernetes: v, Kubelets: map[string]versions.Version{}, Drivers: o.Drivers, Seed: o.Seed,
		Topology: o.Topology.Name,
	}}
	if err := engine.Check(ctx); err != nil {
		return nil, err
	}
	removed, err := engine.Sweep(ctx)
	if err != nil {
		return nil, fmt.Errorf("remove what earlier runs left: %w", err)
	}
	for _, what := range removed {
		n.steps.say("removed %s, which a run left that was killed", what)
	}
	if err := n.nameFree(); err != nil {
		return nil, err
	}
	if err := checkDisk(ctx, needDisk); err != nil {
		return nil, err
	}
	release, err := versions.Lookup(v)
	if err != nil {
		return nil, err
	}
	paths, err := binaries.Ensure(ctx, binaries.Options{Cache: o.Cache, Kubernetes: v, Components: []string{"csi-attacher"}, From: o.From, Out: o.Out})
	if err != nil {
		return nil, err
	}
	n.attacher, n.Attacher = paths["csi-attacher"].Path, "headroom.dev/csi-attacher:"+release.Attacher.String()
	made := map[versions.Version]string{}
	for i, w := range append([]Worker{{}}, o.Topology.Workers...) {
		if w.Kubernetes == "" {
			w.Kubernetes = v
		}
		if w.Image == "" && w.Kubernetes == v {
			w.Image = o.Topology.Image
		}
		own := w.Image == ""
		if w.Image, err = imageOf(ctx, o, w, v, made); err != nil {
			return nil, err
		}
		n.images, n.own = append(n.images, w.Image), append(n.own, own)
		if i > 0 {
			name := workerName(n.Name, i)
			n.Workers = append(n.Workers, name)
			n.Kubelets[name] = w.Kubernetes
		}
	}
	return n, engine.CheckPrivileged(ctx, n.images[0])
}

// imageOf gets a node's image: the one that the topology names, or one that is assembled, once for all nodes of a version.
func imageOf(ctx context.Context, o Options, w Worker, control versions.Version, made map[versions.Version]string) (string, error) {
	if w.Image != "" {
		return w.Image, pull(ctx, w.Image)
	}
	if made[w.Kubernetes] == "" {
		ref, err := nodeimage.Ensure(ctx, nodeimage.Options{
			Kubernetes: w.Kubernetes, WorkerOnly: w.Kubernetes != control, Cache: o.Cache, From: o.From, Out: o.Out,
		})
		if err != nil {
			return "", err
		}
		made[w.Kubernetes] = ref
	}
	return made[w.Kubernetes], nil
}

// workerName is what kind calls the i-th worker, counted from 1.
func workerName(name string, i int) string {
	if i == 1 {
		return name + "-worker"
	}
	return fmt.Sprintf("%s-worker%d", name, i)
}

// nameFree is an error when a cluster of that name exists: kind would refuse it, and to remove it afterwards would be wrong.
func (n *nascent) nameFree() error {
	nodes, err := kindcluster.NewProvider(kindcluster.ProviderWithDocker()).ListNodes(n.Name)
	if err == nil && len(nodes) > 0 {
		return &cluster.EnvironmentError{Op: "name the cluster", Err: fmt.Errorf("there are nodes of a kind cluster %q already", n.Name), Remedy: "kind delete cluster --name " + n.Name}
	}
	return err
}

// checkDisk is an error when the engine's disk has less than need bytes free, as far as this machine can see it.
func checkDisk(ctx context.Context, need int64) error {
	dir, err := engine.Run(ctx, "info", "--format", "{{.DockerRootDir}}")
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil // an engine on another machine
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return &cluster.EnvironmentError{
			Op: "look for room", Err: fmt.Errorf("%s has %.1f GB free, want %.1f GB", dir, float64(free)/1e9, float64(need)/1e9),
			Remedy: "free some space (docker system df), or set DOCKER_HOST to an engine that has it",
		}
	}
	return nil
}

// pull gets an image that the topology names, unless the engine has it.
func pull(ctx context.Context, image string) error {
	name, _, _ := strings.Cut(image, "@")
	has, err := engine.HasImage(ctx, name)
	if err != nil || has {
		return err
	}
	if _, err := engine.Run(ctx, "pull", "--quiet", image); err != nil {
		return &cluster.EnvironmentError{
			Op: "pull node image " + image, Err: err,
			Remedy: "let the engine reach the registry or a mirror of it, `docker load` the image, or leave `image` out of the topology: it is then assembled from source",
		}
	}
	return nil
}

// Versions are those of the run's components, as far as they are known before the cluster is up.
func (p *Provider) Versions(r versions.Release) map[string]string {
	all := map[string]string{"csi-attacher": r.Attacher.String()}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		all[name] = r.Version.String()
	}
	if p.options.Topology.Image == "" {
		all["etcd"] = r.Etcd.String()
	}
	return all
}
