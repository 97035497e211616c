// Package kindconfigs holds the configuration files beside it, embedded, so that the binary needs no checkout.
//
// It only carries bytes: package versions decodes and checks them.
package kindconfigs

import _ "embed"

// VersionsFile is the path of Versions in the repository, for error messages.
const VersionsFile = "kind-configs/versions.yaml"

// Versions is versions.yaml.
//
//go:embed versions.yaml
var Versions []byte
