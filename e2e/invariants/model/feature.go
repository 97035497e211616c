package model

import (
	"time"

	"headroom/e2e/framework/versions"
)

// works says whether a component of that version does what the table calls feature, with the gates that the header names.
func (m *Model) works(feature, version string) bool {
	table := versions.Embedded()
	f, known := table.Feature(feature)
	return known && version != "" && table.Apply(f, versions.Version(version), m.header.Versions[f.Component+"/"+f.Gate]).Works
}

// KubeletVersion is the version of node's kubelet at t, "" when the history does not tell.
func (m *Model) KubeletVersion(node string, t time.Duration) string {
	if p, ok := m.kubelets[node].At(t); ok {
		return p.Value
	}
	return m.header.Versions["kubelet"]
}

// Refreshes says whether the kubelet of node asks its drivers periodically at t.
func (m *Model) Refreshes(node string, t time.Duration) bool {
	return m.works(versions.PeriodicRefresh, m.KubeletVersion(node, t))
}

// Rejects says whether the kubelet of node fails pods that wait on an exhausted node at t.
func (m *Model) Rejects(node string, t time.Duration) bool {
	return m.works(versions.PodRejection, m.KubeletVersion(node, t))
}

// Mutable says whether the API server lets a count change in place at t.
func (m *Model) Mutable(t time.Duration) bool {
	return m.works(versions.CountMutable, m.serverVersion(t))
}

// StoresCodes says whether the API server keeps the errorCode of a failed attach at t.
func (m *Model) StoresCodes(t time.Duration) bool {
	return m.works(versions.ErrorCodeStored, m.serverVersion(t))
}

// SetsCodes says whether the external-attacher of driver passes on the code of a failed attach at t.
func (m *Model) SetsCodes(driver string, t time.Duration) bool {
	version := m.header.Versions[versions.AttacherComponent]
	if p, ok := m.attachers[driver].At(t); ok {
		version = p.Value
	}
	return m.works(versions.ErrorCodeSet, version)
}

func (m *Model) serverVersion(t time.Duration) string {
	if p, ok := m.servers.At(t); ok {
		return p.Value
	}
	return m.header.Versions["kube-apiserver"]
}
