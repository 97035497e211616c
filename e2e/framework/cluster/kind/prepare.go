package kind

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"

	"headroom/drivers"
	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/cluster/kind/nodeimage"
	"headroom/e2e/framework/versions"
)

// nodeDisk is what the engine's disk must have free for each node: it unpacks images of its own.
const nodeDisk = 2 << 30

// nascent is a cluster to be made: all that can be found out before anything starts.
type nascent struct {
	shape
	options Options
	// images are the node images: the control plane's, then each worker's. own says of each whether nodeimage assembled it.
	images []string
	own    []bool
	// attacher and provisioner are the executables of what stands beside drivers; executables are those of Cluster.
	attacher, provisioner string
	executables           map[string]string
	steps                 *steps
}

// prepare checks the engine and gets the images. It starts nothing that lasts. What the user can mend comes first, what takes long last.
func (p *Provider) prepare(ctx context.Context, v versions.Version) (*nascent, error) {
	o := p.options
	n := &nascent{options: o, steps: newSteps(o.Out), shape: shape{
		Name: clusterName(o.Run), Run: o.Run, RunDir: o.RunDir, Kubernetes: v, Kubelets: map[string]versions.Version{}, Drivers: o.Drivers, Seed: o.Seed, Scale: o.Scale,
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
	nodes := o.Topology.nodes(v)
	if err := n.nameFree(ctx); err != nil {
		return nil, err
	}
	if err := checkDisk(ctx, int64(len(nodes))*nodeDisk); err != nil {
		return nil, err
	}
	if err := n.findImages(ctx, nodes); err != nil {
		return nil, err
	}
	if err := n.assembleImages(ctx, nodes); err != nil {
		return nil, err
	}
	for i, node := range nodes[1:] {
		name := workerName(n.Name, i+1)
		n.Workers = append(n.Workers, name)
		n.Kubelets[name] = node.Kubernetes
	}
	return n, n.findExecutables(ctx)
}

// nodes are the control plane and the workers, with what the topology leaves to the run filled in.
func (t Topology) nodes(v versions.Version) []Worker {
	all := append([]Worker{{}}, t.Workers...)
	for i, w := range all {
		if w.Kubernetes == "" {
			all[i].Kubernetes = v
		}
		if w.Image == "" && all[i].Kubernetes == v {
			all[i].Image = t.Image
		}
	}
	return all
}

// findImages gets the images that the topology names. Those that are to be assembled stay "".
func (n *nascent) findImages(ctx context.Context, nodes []Worker) error {
	found := map[string]string{"": ""}
	for _, w := range nodes {
		image, known := found[w.Image]
		if !known {
			var err error
			if image, err = n.find(ctx, w.Image); err != nil {
				return err
			}
			if found[w.Image] = image; image != "" {
				if err := engine.CheckPrivileged(ctx, image); err != nil {
					return err
				}
			}
		}
		n.images, n.own = append(n.images, image), append(n.own, image == "")
	}
	return nil
}

// find gets an image that the topology names: the engine's, else its registry's. Where no registry answers it takes the engine's image of that tag,
// which cannot prove its digest, and where there is none either it is "": to be assembled.
func (n *nascent) find(ctx context.Context, image string) (string, error) {
	has, err := engine.HasImage(ctx, image)
	if err != nil || has {
		return image, err
	}
	if err = engine.Pull(ctx, image); err == nil {
		return image, nil
	}
	if !errors.Is(err, engine.ErrNoRegistry) {
		return "", &cluster.EnvironmentError{
			Op: "pull node image " + image, Err: err, Remedy: "correct `image` in the topology, or leave it out: the node is then assembled from source",
		}
	}
	if tag, _, exact := strings.Cut(image, "@"); exact {
		if has, err := engine.HasImage(ctx, tag); err != nil || has {
			n.steps.say("node image %s: no registry answers; the engine has one of that tag, whatever its digest", image)
			return tag, err
		}
	}
	n.steps.say("node image %s: no registry answers; assembling one from source", image)
	return "", nil
}

// assembleImages makes the images that nobody else gives, one for all nodes of a version.
func (n *nascent) assembleImages(ctx context.Context, nodes []Worker) error {
	made := map[versions.Version]string{}
	for i, w := range nodes {
		if !n.own[i] {
			continue
		}
		if made[w.Kubernetes] == "" {
			ref, err := nodeimage.Ensure(ctx, nodeimage.Options{
				Kubernetes: w.Kubernetes, WorkerOnly: w.Kubernetes != n.Kubernetes, Proxy: n.Kubernetes, Cache: n.options.Cache, From: n.options.From, Out: n.options.Out,
			})
			if err != nil && w.Image != "" {
				err = fmt.Errorf("no registry answers for node image %s, and none can be assembled: %w", w.Image, err)
			}
			if err != nil {
				return err
			}
			made[w.Kubernetes] = ref
		}
		n.images[i] = made[w.Kubernetes]
	}
	return nil
}

// findExecutables gets external-attacher's, external-provisioner's where it runs, and those of an assembled control plane, which are in the cache by now.
func (n *nascent) findExecutables(ctx context.Context) error {
	release, err := versions.Lookup(n.Kubernetes)
	if err != nil {
		return err
	}
	names := []string{"csi-attacher"}
	if n.own[0] {
		names = append(names, "kube-apiserver", "kubelet")
		n.Etcd = release.Etcd
	}
	if n.options.provisions() {
		names = append(names, versions.ProvisionerComponent)
	}
	paths, err := binaries.Ensure(ctx, binaries.Options{Cache: n.options.Cache, Kubernetes: n.Kubernetes, Components: names, From: n.options.From, Out: n.options.Out})
	if err != nil {
		return err
	}
	n.attacher, n.Attacher = paths["csi-attacher"].Path, "headroom.dev/csi-attacher:"+release.Attacher.String()
	if b, ok := paths[versions.ProvisionerComponent]; ok {
		n.provisioner, n.Provisioner = b.Path, "headroom.dev/"+versions.ProvisionerComponent+":"+b.Version.String()
	}
	if n.own[0] {
		n.executables = map[string]string{}
		for name, b := range paths {
			n.executables[name] = b.Path
		}
	}
	return nil
}

// provisions says whether a driver's definition asks for external-provisioner.
func (o Options) provisions() bool {
	for _, reference := range o.Drivers {
		if def, err := drivers.Load(reference); err == nil && def.Dynamic() { // New has seen that each loads
			return true
		}
	}
	return false
}

// clusterName is that of a run's cluster.
func clusterName(run string) string { return "headroom-" + run }

// workerName is what kind calls the i-th worker, counted from 1.
func workerName(name string, i int) string {
	if i == 1 {
		return name + "-worker"
	}
	return fmt.Sprintf("%s-worker%d", name, i)
}

// nameFree is an error when something in the engine has the cluster's name: kind would refuse it, and to remove it afterwards would be wrong.
func (n *nascent) nameFree(ctx context.Context) error {
	op, pattern := "name the cluster", "^/?"+regexp.QuoteMeta(n.Name)
	nodes, err := kindcluster.NewProvider(kindcluster.ProviderWithDocker()).ListNodes(n.Name)
	if err != nil {
		return err
	}
	if len(nodes) > 0 {
		return &cluster.EnvironmentError{Op: op, Err: fmt.Errorf("there are nodes of a kind cluster %q already", n.Name), Remedy: "kind delete cluster --name " + n.Name}
	}
	containers, err := engine.Lines(ctx, "ps", "--all", "--filter", "name="+pattern+"-", "--format", "{{.Names}}")
	if err != nil {
		return err
	}
	if len(containers) > 0 {
		return &cluster.EnvironmentError{Op: op, Err: fmt.Errorf("there is a container %q already", containers[0]), Remedy: "docker rename it, or docker rm it"}
	}
	networks, err := engine.Lines(ctx, "network", "ls", "--filter", "name="+pattern+"$", "--format", "{{.Name}}")
	if err == nil && len(networks) > 0 {
		err = &cluster.EnvironmentError{Op: op, Err: fmt.Errorf("there is a network %q already", n.Name), Remedy: "docker network rm " + n.Name}
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

// Versions are those of the run's components, as far as they are known before the cluster is up.
func (p *Provider) Versions(r versions.Release) map[string]string {
	all := map[string]string{"csi-attacher": r.Attacher.String()}
	if p.options.provisions() {
		all[versions.ProvisionerComponent] = versions.Embedded().Provisioner().String()
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		all[name] = r.Version.String()
	}
	if p.options.Topology.Image == "" {
		all["etcd"] = r.Etcd.String()
	}
	for i, w := range p.options.Topology.Workers {
		if w.Kubernetes != "" && w.Kubernetes != r.Version {
			all["kubelet@"+workerName(clusterName(p.options.Run), i+1)] = w.Kubernetes.String()
		}
	}
	return all
}
