// Package scenario holds what a run is made of, as data.
//
// It describes; it starts nothing.
package scenario

import "headroom/e2e/framework/versions"

// Topology is the cluster to make.
type Topology struct {
	// Kubernetes is the version of every component without a version of its own.
	Kubernetes versions.Version
	// Nodes are the names of the nodes to start with, in order.
	Nodes []string
}
