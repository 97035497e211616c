// Package preflight looks at a live cluster and says of each CSI driver whether an upgrade is safe for its attach capacity, and why not.
//
// Contract: it only reads (get and list). Gather collects facts, Judge turns them into findings, without a cluster: the same facts give the same answer.
// What could not be read is a finding of its own and never an assumption in favour of the upgrade.
//
// It does not look at manifests that are not applied, and it changes nothing.
package preflight

import (
	"headroom/e2e/framework/versions"
)

// Facts are what was read of a cluster.
type Facts struct {
	// Server is kube-apiserver's version, and Gate what it says of MutableCSINodeAllocatableCount.
	Server versions.Version
	Gate   Gate
	Nodes  []Node
	// Drivers are all that have a CSIDriver that is attached, or an entry in a CSINode, by name.
	Drivers []Driver
	// Unread are reads that failed.
	Unread []Unread
}

// Gate is what a component says of MutableCSINodeAllocatableCount.
type Gate struct {
	// On is meaningful where Known.
	On, Known bool
	// Why says why it is not known.
	Why string
}

// Node is a node with its kubelet.
type Node struct {
	Name    string
	Kubelet versions.Version
	Gate    Gate
}

// Driver is a CSI driver.
type Driver struct {
	Name string
	// Object says whether there is a CSIDriver.
	Object bool
	// Period is spec.nodeAllocatableUpdatePeriodSeconds; nil where it is not set.
	Period *int64
	// Dropped says that the manifest that was applied sets a period which is not in the object.
	Dropped  bool
	Entries  []Entry
	Attacher Attacher
	// Codes and NoCodes count the attach errors of the driver's VolumeAttachments that carry an errorCode, and those that carry none.
	Codes, NoCodes int
}

// Entry is what a CSINode says of a driver.
type Entry struct {
	Node string
	// Count is nil where there is none, which is unlimited.
	Count *int32
	// Attached is how many VolumeAttachments of the driver the node has.
	Attached int
	// Writers are those that wrote the entry, other than kubelets.
	Writers []string
}

// Attacher is the external-attacher that serves a driver.
type Attacher struct {
	// Where names it: "pod kube-system/ebs-csi-controller-0"; "" where none was found.
	Where   string
	Version versions.Version
	// Gate is "true" or "false" where an argument sets it, "" otherwise.
	Gate string
	// Several says that there are further ones, of other versions or gates.
	Several bool
}

// Unread is something that could not be read.
type Unread struct {
	// What is the kind of object: "CSINodes".
	What string
	// Why is the API server's answer.
	Why string
}
