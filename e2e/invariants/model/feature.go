package model

import (
	"strconv"
	"strings"
	"time"
)

// gate is the feature gate of the feature under test.
const gate = "MutableCSINodeAllocatableCount"

// minor reads the minor version of "v1.36.3"; 0 when it cannot.
func minor(version string) int {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 || parts[0] != "1" {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return n
}

// enabled says whether the feature is on in a component of that version. The header may name the gate's value as the "version" of
// "<component>/MutableCSINodeAllocatableCount": "true" or "false"; without it the default of the version counts: on from 1.35. It cannot be off from 1.36.
func (m *Model) enabled(component, version string) bool {
	n := minor(version)
	switch value := m.header.Versions[component+"/"+gate]; {
	case n < 33:
		return false
	case n < 36 && value != "":
		return value == "true"
	default:
		return n >= 35
	}
}

// KubeletVersion is the version of node's kubelet at t, "" when the history does not tell.
func (m *Model) KubeletVersion(node string, t time.Duration) string {
	if p, ok := m.kubelets[node].At(t); ok {
		return p.Value
	}
	return m.header.Versions["kubelet"]
}

// Refreshes says whether the kubelet of node asks its drivers periodically at t (from 1.33, where the gate is on).
func (m *Model) Refreshes(node string, t time.Duration) bool {
	return m.enabled("kubelet", m.KubeletVersion(node, t))
}

// Rejects says whether the kubelet of node fails pods that wait on an exhausted node at t (from 1.34, where the gate is on).
func (m *Model) Rejects(node string, t time.Duration) bool {
	return m.Refreshes(node, t) && minor(m.KubeletVersion(node, t)) >= 34
}

// Mutable says whether the API server lets a count change in place at t.
func (m *Model) Mutable(t time.Duration) bool {
	version := m.header.Versions["kube-apiserver"]
	if p, ok := m.servers.At(t); ok {
		version = p.Value
	}
	return m.enabled("kube-apiserver", version)
}
