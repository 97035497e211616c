package cri

import (
	"strings"
	"time"
)

// Pod is a sandbox as Pods shows it.
type Pod struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Attempt   uint32    `json:"attempt"`
	Ready     bool      `json:"ready"`
	Created   time.Time `json:"created"`
	// IP is empty on the host's network and once the sandbox is stopped.
	IP         string      `json:"ip,omitempty"`
	Containers []Container `json:"containers,omitempty"`
}

// Container is a container as Pods shows it.
type Container struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Attempt uint32 `json:"attempt"`
	Image   string `json:"image"`
	// State is created, running or exited. The last three fields mean something when it is exited.
	State    string    `json:"state"`
	Created  time.Time `json:"created"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	ExitCode int32     `json:"exitCode"`
	Reason   string    `json:"reason,omitempty"`
	// HostPaths are those of the container's mounts.
	HostPaths []string `json:"hostPaths,omitempty"`
}

// Pods returns a snapshot of all sandboxes and containers, in order of creation, for debugging.
func (s *Server) Pods() []Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []Pod
	for _, b := range s.sandboxesBy("", nil) {
		meta := b.config.GetMetadata()
		p := Pod{
			ID: b.id, Namespace: meta.GetNamespace(), Name: meta.GetName(), UID: meta.GetUid(), Attempt: meta.GetAttempt(),
			Ready: b.ready, Created: b.created,
		}
		if b.ip.IsValid() {
			p.IP = b.ip.String()
		}
		for _, c := range s.containersOf(b) {
			shown := Container{
				ID: c.id, Name: c.config.GetMetadata().GetName(), Attempt: c.config.GetMetadata().GetAttempt(), Image: shownName(c.image),
				State:   strings.ToLower(strings.TrimPrefix(c.state.String(), "CONTAINER_")),
				Created: c.created, Started: c.started, Finished: c.finished, ExitCode: c.code, Reason: c.reason,
			}
			for _, m := range c.config.GetMounts() {
				if m.GetHostPath() != "" {
					shown.HostPaths = append(shown.HostPaths, m.GetHostPath())
				}
			}
			p.Containers = append(p.Containers, shown)
		}
		pods = append(pods, p)
	}
	return pods
}
