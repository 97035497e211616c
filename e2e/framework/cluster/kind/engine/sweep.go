package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Of a kind cluster of ours, the network is made first and removed last, and carries the owner's label; the nodes are in it, and kind labels them with the
// cluster's name, which is the network's. So whatever a killed run leaves, the network still leads to it. Container volumes are anonymous and go with
// their containers. Containers that become images must not carry the owner's label: whatever is made from such an image would.
const clusterKey = "io.x-k8s.kind.cluster"

// MakeNetwork makes the network of a cluster, owned by this process.
func MakeNetwork(ctx context.Context, name string) error {
	owner, err := Owner()
	if err != nil {
		return err
	}
	_, err = Run(ctx, "network", "create", "--driver", "bridge", "--opt", "com.docker.network.bridge.enable_ip_masquerade=true", "--label", owner, name)
	return err
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

func removeCluster(ctx context.Context, network object) error {
	var nodes []string
	for _, filter := range []string{"network=" + network.ID, "label=" + clusterKey + "=" + network.Name} {
		found, err := Lines(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", filter)
		if err != nil {
			return err
		}
		nodes = append(nodes, found...)
	}
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) > 0 {
		if _, err := Run(ctx, append([]string{"rm", "--force", "--volumes"}, nodes...)...); err != nil {
			return err
		}
	}
	_, err := Run(ctx, "network", "rm", network.ID)
	return err
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
