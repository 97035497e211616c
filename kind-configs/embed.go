// Package kindconfigs holds the configuration files beside it, embedded, so that the binary needs no checkout.
//
// It only carries bytes: package versions decodes and checks versions.yaml, package cluster/kind the topologies.
package kindconfigs

import "embed"

// VersionsFile is the path of Versions in the repository, for error messages.
const VersionsFile = "kind-configs/versions.yaml"

// Versions is versions.yaml.
//
//go:embed versions.yaml
var Versions []byte

// Topologies are the topologies of kind clusters, and versions.yaml, which is none.
//
//go:embed *.yaml
var Topologies embed.FS
