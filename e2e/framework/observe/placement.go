package observe

import corev1 "k8s.io/api/core/v1"

// closed says whether the scheduler passes the node by for pods without tolerations.
func closed(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			return true
		}
	}
	return n.Spec.Unschedulable
}

// constrained says whether anything but node selector and volumes bears on where the pod can go. Requests for resources are not looked at: a pod that
// finds too few says so itself.
func constrained(p *corev1.Pod) bool {
	s := p.Spec
	if a := s.Affinity; a != nil {
		hard := a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil ||
			a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
		if hard {
			return true
		}
	}
	for _, c := range s.Containers {
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				return true
			}
		}
	}
	return len(s.SchedulingGates) > 0 || len(s.ResourceClaims) > 0 || len(s.TopologySpreadConstraints) > 0
}
