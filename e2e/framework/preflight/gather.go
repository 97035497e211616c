package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"headroom/e2e/framework/observe"
	"headroom/e2e/framework/versions"
)

// Source is where facts come from.
type Source struct {
	Client kubernetes.Interface
	// Get reads a path of the API server, such as /metrics.
	Get func(ctx context.Context, path string) ([]byte, error)
}

// readTimeout bounds one read: a node that is gone must not hold up the others for long.
const readTimeout = 15 * time.Second

// Gather reads the cluster. The error is that the API server does not even tell its version; whatever else cannot be read is among the facts.
func Gather(ctx context.Context, s Source) (Facts, error) {
	info, err := s.Client.Discovery().ServerVersion()
	if err != nil {
		return Facts{}, fmt.Errorf("read the API server's version: %w", err)
	}
	var f Facts
	if f.Server, err = parse(info.GitVersion); err != nil {
		return Facts{}, fmt.Errorf("read the API server's version: %w", err)
	}
	f.Gate = s.gate(ctx, "/metrics")
	g := gatherer{Source: s, facts: &f, drivers: map[string]*Driver{}, of: map[string]map[string]int{}}
	nodes := read(g, "Nodes", func() (*corev1.NodeList, error) { return s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}) })
	csiDrivers := read(g, "CSIDrivers", func() (*storagev1.CSIDriverList, error) {
		return s.Client.StorageV1().CSIDrivers().List(ctx, metav1.ListOptions{})
	})
	csiNodes := read(g, "CSINodes", func() (*storagev1.CSINodeList, error) {
		return s.Client.StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
	})
	attachments := read(g, "VolumeAttachments", func() (*storagev1.VolumeAttachmentList, error) {
		return s.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	})
	pods := read(g, "Pods", func() (*corev1.PodList, error) { return s.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{}) })
	leases := read(g, "Leases", func() (*coordinationv1.LeaseList, error) {
		return s.Client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
	})
	for _, n := range nodes.Items {
		g.node(ctx, n)
	}
	for _, d := range csiDrivers.Items {
		if d.Spec.AttachRequired == nil || *d.Spec.AttachRequired {
			g.object(d)
		}
	}
	for _, va := range attachments.Items {
		g.attachment(va)
	}
	for _, n := range csiNodes.Items {
		g.entries(n)
	}
	for _, name := range slices.Sorted(maps.Keys(g.drivers)) {
		d := g.drivers[name]
		d.Attacher = attacherOf(name, len(g.drivers), pods.Items, leases.Items)
		f.Drivers = append(f.Drivers, *d)
	}
	return f, nil
}

// gatherer puts facts together.
type gatherer struct {
	Source
	facts   *Facts
	drivers map[string]*Driver
	of      map[string]map[string]int // attachments by driver, then node
}

// read lists objects; a failure is a fact, and the list then empty.
func read[L any](g gatherer, what string, list func() (*L, error)) *L {
	l, err := list()
	if err != nil {
		g.facts.Unread = append(g.facts.Unread, Unread{What: what, Why: err.Error()})
		return new(L)
	}
	return l
}

func (g gatherer) node(ctx context.Context, n corev1.Node) {
	v, err := parse(n.Status.NodeInfo.KubeletVersion)
	if err != nil {
		g.facts.Unread = append(g.facts.Unread, Unread{What: "the kubelet version of node " + n.Name, Why: err.Error()})
		return
	}
	node := Node{Name: n.Name, Kubelet: v}
	// Where the version leaves no choice, nobody needs to be asked.
	if versions.Embedded().Unlocked(versions.PeriodicRefresh, v) {
		node.Gate = g.gate(ctx, "/api/v1/nodes/"+n.Name+"/proxy/metrics")
	}
	g.facts.Nodes = append(g.facts.Nodes, node)
}

// gate reads kubernetes_feature_enabled of a component's metrics.
func (s Source) gate(ctx context.Context, path string) Gate {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	text, err := s.Get(ctx, path)
	if err != nil {
		return Gate{Why: fmt.Sprintf("%s: %v", path, err)}
	}
	const metric = "kubernetes_feature_enabled"
	value, shown, err := observe.Gauge(bytes.NewReader(text), metric, map[string]string{"name": versions.MutableCSINodeAllocatableCount})
	switch {
	case err != nil:
		return Gate{Why: fmt.Sprintf("%s: %v", path, err)}
	case !shown:
		return Gate{Why: fmt.Sprintf("%s does not show %s of the gate", path, metric)}
	}
	return Gate{On: value == 1, Known: true}
}

// parse reads a version as components report it, build metadata and suffixes of distributions included: v1.34.1+k3s1, v1.33.4-eks-3cfe0ce.
func parse(s string) (versions.Version, error) {
	s, _, _ = strings.Cut(s, "+")
	v, err := versions.Parse(s)
	if err != nil {
		return "", err
	}
	return v, nil
}

func (g gatherer) driver(name string) *Driver {
	if g.drivers[name] == nil {
		g.drivers[name] = &Driver{Name: name}
	}
	return g.drivers[name]
}

// lastApplied is where kubectl keeps the manifest that it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (g gatherer) object(o storagev1.CSIDriver) {
	d := g.driver(o.Name)
	d.Object, d.Period = true, o.Spec.NodeAllocatableUpdatePeriodSeconds
	var manifest struct {
		Spec map[string]json.RawMessage `json:"spec"`
	}
	if json.Unmarshal([]byte(o.Annotations[lastApplied]), &manifest) == nil {
		value, set := manifest.Spec["nodeAllocatableUpdatePeriodSeconds"]
		d.Dropped = set && string(value) != "null" && d.Period == nil
	}
}

func (g gatherer) attachment(va storagev1.VolumeAttachment) {
	d := g.driver(va.Spec.Attacher)
	if g.of[d.Name] == nil {
		g.of[d.Name] = map[string]int{}
	}
	if va.Status.Attached {
		g.of[d.Name][va.Spec.NodeName]++
	}
	if e := va.Status.AttachError; e != nil && !va.Status.Attached {
		if e.ErrorCode != nil {
			d.Codes++
		} else {
			d.NoCodes++
		}
	}
}

func (g gatherer) entries(n storagev1.CSINode) {
	writers := writersOf(n.ManagedFields)
	for _, e := range n.Spec.Drivers {
		d := g.driver(e.Name)
		entry := Entry{Node: n.Name, Attached: g.of[e.Name][n.Name], Writers: slices.Concat(writers[e.Name], writers[""])}
		if e.Allocatable != nil {
			entry.Count = e.Allocatable.Count
		}
		slices.Sort(entry.Writers)
		entry.Writers = slices.Compact(entry.Writers)
		d.Entries = append(d.Entries, entry)
	}
}

// kubelets are the names under which kubelets write, those inside another program's process included.
var kubelets = []string{"kubelet", "hyperkube", "k3s", "rke2", "k0s", "kubelite"}

// writersOf lists who else than a kubelet wrote entries of a CSINode, by driver; those that wrote the whole list are under "".
func writersOf(fields []metav1.ManagedFieldsEntry) map[string][]string {
	found := map[string][]string{}
	for _, f := range fields {
		if slices.Contains(kubelets, f.Manager) || f.FieldsV1 == nil {
			continue
		}
		var set struct {
			Spec struct {
				Drivers map[string]json.RawMessage `json:"f:drivers"`
			} `json:"f:spec"`
		}
		raw := f.FieldsV1.Raw
		if json.Unmarshal(raw, &set) != nil || !bytes.Contains(raw, []byte(`"f:drivers"`)) {
			continue
		}
		named := false
		for key := range set.Spec.Drivers {
			var by struct {
				Name string `json:"name"`
			}
			if text, ok := strings.CutPrefix(key, "k:"); ok && json.Unmarshal([]byte(text), &by) == nil {
				named = true
				found[by.Name] = append(found[by.Name], f.Manager)
			}
		}
		if !named {
			found[""] = append(found[""], f.Manager)
		}
	}
	return found
}
