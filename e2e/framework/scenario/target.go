package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Class is what kind of thing a target is.
type Class string

// Classes of targets. Those of a node are written with its number, counted from 1: node/1, csinode/1, kubelet@1, driver@1.
const (
	OnNode            Class = "node"    // the node: its quota, its Node object, its pods
	CSINode           Class = "csinode" // the node's CSINode object
	Kubelet           Class = "kubelet" // the node's kubelet
	NodeDriver        Class = "driver"  // the node's driver process and what it answers
	Backend           Class = "backend" // the quota backend, for all nodes of the scenario
	CSIDriver         Class = "csidriver"
	DriverController  Class = "driver-controller"
	Attacher          Class = "csi-attacher"
	Scheduler         Class = "kube-scheduler"
	ControllerManager Class = "kube-controller-manager"
	APIServer         Class = "kube-apiserver"
	Etcd              Class = "etcd"
)

// separators of the classes that have a node.
var separators = map[Class]string{OnNode: "/", CSINode: "/", Kubelet: "@", NodeDriver: "@"}

// Classes lists all classes.
var Classes = []Class{
	OnNode, CSINode, Kubelet, NodeDriver, Backend, CSIDriver, DriverController, Attacher, Scheduler, ControllerManager, APIServer, Etcd,
}

// Processes are the classes of what can be stopped and started.
var Processes = []Class{Kubelet, NodeDriver, DriverController, Attacher, Scheduler, ControllerManager, APIServer, Etcd}

// shared are the processes that scenarios on one cluster have in common.
var shared = []Class{Scheduler, ControllerManager, APIServer, Etcd}

// Target is what a step acts on. Its zero value is none.
type Target struct {
	Class Class
	// Node counts from 1; 0 for a class without a node.
	Node int
}

func (t Target) String() string {
	if sep, ok := separators[t.Class]; ok {
		return string(t.Class) + sep + strconv.Itoa(t.Node)
	}
	return string(t.Class)
}

// MarshalText writes the form of String.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the form of String. Whether there is such a node it does not know.
func (t *Target) UnmarshalText(b []byte) error {
	text := string(b)
	class, rest := text, ""
	if i := strings.IndexAny(text, "/@"); i >= 0 {
		class, rest = text[:i], text[i:]
	}
	c := Class(class)
	if !slices.Contains(Classes, c) {
		return fmt.Errorf("target %q: want one of %s", text, written(Classes))
	}
	sep, ofNode := separators[c]
	if !ofNode {
		if rest != "" {
			return fmt.Errorf("target %q: want %q, which belongs to no node", text, class)
		}
		*t = Target{Class: c}
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(rest, sep), 10, 16)
	if !strings.HasPrefix(rest, sep) || err != nil || n == 0 {
		return fmt.Errorf("target %q: want the number of a node, such as %q", text, class+sep+"1")
	}
	*t = Target{Class: c, Node: int(n)}
	return nil
}

// written lists classes as a file names them.
func written(classes []Class) string {
	var names []string
	for _, c := range classes {
		t := Target{Class: c}
		if _, ok := separators[c]; ok {
			t.Node = 1
		}
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}
