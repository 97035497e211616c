package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Of a kind cluster of ours, the network is made first and removed last, and carries the owner's label; the nodes are in it, their names begin with its
// name, and kind labels them with it. So whatever a killed run leaves, the network still leads to it. Container volumes are anonymous and go with
// their containers. Containers that become images must not carry the owner's label: whatever is made from such an image would.
const clusterKey = "io.x-k8s.kind.cluster"

// NetworkEnv makes kind use a network of our choice. The commands that kind runs inherit it, and they outlive a kind that is killed: by it they are found.
const NetworkEnv = "KIND_EXPERIMENTAL_DOCKER_NETWORK"

// stageRepository is the name of images that only a living process needs; the tag is its owner.
const stageRepository = "headroom.dev/stage"

// MakeNetwork makes the network of a cluster, owned by this process.
func MakeNetwork(ctx context.Context, name string) error {
	owner, err := Owner()
	if err != nil {
		return err
	}
	_, err = Run(ctx, "network", "create", "--driver", "bridge", "--opt", "com.docker.network.bridge.enable_ip_masquerade=true", "--label", owner, name)
	return err
}

// Stage is a name for an image that this process will remove again. When it is killed before, a sweep does.
func Stage() (string, error) {
	owner, err := Owner()
	_, value, _ := strings.Cut(owner, "=")
	return stageRepository + ":" + value, err
}

// RemoveCluster removes a cluster of ours by its name: nodes, their volumes, network. What is not there is no error.
func RemoveCluster(ctx context.Context, name string) error {
	networks, err := owned(ctx, "network")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(networks, func(o object) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return removeCluster(ctx, networks[i])
}

const (
	// lookInterval is the time between two looks at what is left of a cluster.
	lookInterval = 200 * time.Millisecond
	// endTimeout bounds the wait for the commands of a killed run: what they work on is taken away under them, so they fail soon.
	endTimeout = 30 * time.Second
)

// removeCluster removes nodes until two looks in a row find none, and no command that may just be making another: what the engine was asked for before
// the run was killed may come after the first look. A container of somebody else's that was connected to the network loses that connection only.
func removeCluster(ctx context.Context, network object) error {
	for began, quiet := time.Now(), 0; quiet < 2; quiet++ {
		busy := commandsOf(network.Name)
		nodes, err := nodesOf(ctx, network)
		if err != nil {
			return err
		}
		if len(nodes) > 0 {
			if _, err := Run(ctx, append([]string{"rm", "--force", "--volumes"}, nodes...)...); err != nil {
				return err
			}
		}
		if len(nodes) > 0 || len(busy) > 0 {
			quiet = -1
		}
		if len(busy) > 0 && time.Since(began) > endTimeout {
			return fmt.Errorf("commands of the run go on after %s: %s", endTimeout, strings.Join(busy, ", "))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookInterval):
		}
	}
	guests, err := Lines(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", "network="+network.ID)
	if err != nil {
		return err
	}
	for _, id := range guests {
		if _, err := Run(ctx, "network", "disconnect", "--force", network.ID, id); err != nil {
			return err
		}
	}
	_, err = Run(ctx, "network", "rm", network.ID)
	return err
}

// nodesOf lists the containers of a cluster.
func nodesOf(ctx context.Context, network object) ([]string, error) {
	nodes, err := Lines(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+clusterKey+"="+network.Name)
	if err != nil {
		return nil, err
	}
	named, err := Lines(ctx, "ps", "--all", "--no-trunc", "--filter", "network="+network.ID, "--format", "{{.ID}} {{.Names}}")
	if err != nil {
		return nil, err
	}
	for _, line := range named {
		if id, name, _ := strings.Cut(line, " "); strings.HasPrefix(name, network.Name) {
			nodes = append(nodes, id)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// commandsOf lists other processes that were told to use the network: kind's commands and the processes of specs. Those that cannot be read are another
// user's, and so are not of a run of ours.
func commandsOf(name string) []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), NetworkEnv+"="+name) {
			continue
		}
		argv, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // it is only shown
		out = append(out, fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(strings.ReplaceAll(string(argv), "\x00", " "))))
	}
	return out
}

// Sweep removes what runs left that were killed: all that carries our label and whose process is gone. It returns the names of what it removed, and
// goes on after an error. Nothing without the label is touched.
func Sweep(ctx context.Context) (removed []string, err error) {
	var errs []error
	networks, err := owned(ctx, "network")
	errs = append(errs, err)
	for _, n := range networks {
		if Alive(n.owner()) {
			continue
		}
		if err := removeCluster(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("remove cluster %s: %w", n.Name, err))
			continue
		}
		removed = append(removed, "cluster "+n.Name)
	}
	containers, err := owned(ctx, "container")
	errs = append(errs, err)
	for _, c := range containers {
		if Alive(c.owner()) {
			continue
		}
		if _, err := Run(ctx, "rm", "--force", "--volumes", c.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "container "+strings.TrimPrefix(c.Name, "/"))
	}
	stages, err := Lines(ctx, "images", "--format", "{{.Tag}}", stageRepository)
	errs = append(errs, err)
	for _, owner := range stages {
		if Alive(owner) {
			continue
		}
		image := stageRepository + ":" + owner
		if _, err := Run(ctx, "rmi", "--force", image); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "image "+image)
	}
	return removed, errors.Join(errs...)
}

// object is a network or a container, as far as it matters here.
type object struct {
	ID     string `json:"Id"`
	Name   string
	Labels map[string]string
	Config struct{ Labels map[string]string }
}

func (o object) owner() string {
	if v, ok := o.Labels[ownerKey]; ok {
		return v
	}
	return o.Config.Labels[ownerKey]
}

// owned lists what carries our label, of a kind that docker knows.
func owned(ctx context.Context, kind string) ([]object, error) {
	list := []string{kind, "ls", "--quiet", "--no-trunc", "--filter", "label=" + ownerKey}
	if kind == "container" {
		list = append(list, "--all")
	}
	ids, err := Lines(ctx, list...)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var out []object
	for _, id := range ids {
		text, err := Run(ctx, kind, "inspect", id)
		if err != nil {
			continue // gone meanwhile
		}
		var found []object
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			return nil, fmt.Errorf("docker %s inspect: %w", kind, err)
		}
		out = append(out, found...)
	}
	return out, nil
}
