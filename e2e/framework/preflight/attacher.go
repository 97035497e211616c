package preflight

import (
	"regexp"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"headroom/e2e/framework/versions"
)

// leasePrefix begins the name of an external-attacher's lease; the driver's name follows, with all but letters, digits and dashes replaced by dashes.
const leasePrefix = "external-attacher-leader-"

var notInLease = regexp.MustCompile(`[^a-zA-Z0-9-]`)

// attacherOf finds the external-attacher of a driver among the pods: the holder of the driver's lease and its replicas, or, where the cluster has one
// driver, any.
func attacherOf(driver string, drivers int, pods []corev1.Pod, leases []coordinationv1.Lease) Attacher {
	name := leasePrefix + notInLease.ReplaceAllString(driver, "-")
	holder, namespace := "", ""
	for _, l := range leases {
		if l.Name == name && l.Spec.HolderIdentity != nil {
			holder, namespace = *l.Spec.HolderIdentity, l.Namespace
		}
	}
	var found []Attacher
	for _, p := range pods {
		// A pod in its node's network has the node's name as its host's, which is what holds the lease.
		holds := p.Namespace == namespace && (p.Name == holder || p.Spec.HostNetwork && p.Spec.NodeName == holder)
		if holder != "" && !holds || holder == "" && drivers > 1 {
			continue
		}
		for _, c := range p.Spec.Containers {
			if a, ok := attacherIn(c); ok {
				a.Where = "pod " + p.Namespace + "/" + p.Name
				found = append(found, a)
			}
		}
	}
	if len(found) == 0 {
		return Attacher{}
	}
	first := found[0]
	first.Several = slices.ContainsFunc(found, func(a Attacher) bool { return a.Version != first.Version || a.Gate != first.Gate })
	return first
}

var tag = regexp.MustCompile(`:(v?\d+\.\d+\.\d+[^@]*)`)

// attacherIn says whether a container is an external-attacher, and which.
func attacherIn(c corev1.Container) (Attacher, bool) {
	image := c.Image[strings.LastIndex(c.Image, "/")+1:]
	if !strings.HasPrefix(image, "csi-attacher") && !strings.HasPrefix(image, "external-attacher") && c.Name != "csi-attacher" && c.Name != "external-attacher" {
		return Attacher{}, false
	}
	var a Attacher
	if m := tag.FindStringSubmatch(image); m != nil {
		a.Version, _ = parse(m[1]) // an unknown version is said to be one
	}
	words := slices.Concat(c.Command, c.Args)
	for i, word := range words {
		value, ok := strings.CutPrefix(strings.TrimLeft(word, "-"), "feature-gates=")
		if !ok && strings.TrimLeft(word, "-") == "feature-gates" && i+1 < len(words) {
			value, ok = words[i+1], true
		}
		if !ok {
			continue
		}
		for gate := range strings.SplitSeq(value, ",") {
			if on, set := strings.CutPrefix(strings.TrimSpace(gate), versions.MutableCSINodeAllocatableCount+"="); set {
				a.Gate = strings.ToLower(on)
			}
		}
	}
	return a, true
}
