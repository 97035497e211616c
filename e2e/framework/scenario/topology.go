// Package scenario holds what a run is made of, as data.
//
// Contract: a scenario is one YAML file, decoded strictly and checked as far as it can be without a cluster: Load lists everything that is wrong with
// it, and what it returns refers to nothing that does not exist. Faults, invariants and drivers are known to others: the caller brings a Catalog.
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
