package run

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/workload"
)

// MaxVolumes is what the scheduler says of nodes that are full.
const MaxVolumes = "exceed max volume count"

// Detached bounds the time from a pod's end to the end of its attachments: kubelet, controller manager, attacher and driver each do their part.
const Detached = 60 * time.Second

// Requeued bounds the time from room to a pod's being placed: it may back off for 10 s.
const Requeued = 15 * time.Second

// StartPod makes a pod of the template and waits until it runs.
func (b *Bench) StartPod(ctx context.Context, t workload.Template) Pod {
	pod, err := b.PodOf(ctx, t)
	b.Check(err)
	b.Check(b.AwaitRunning(ctx, pod, PodStart))
	return pod
}

// WaitingPod makes a pod with claims of its own that finds no room, and waits until the scheduler says so.
func (b *Bench) WaitingPod(ctx context.Context, claims int) Pod {
	var volumes []workload.Volume
	for range claims {
		volumes = append(volumes, b.NewVolume(ctx))
	}
	pod, err := b.Pod(ctx, b.On(), volumes...)
	b.Check(err)
	b.AwaitUnschedulable(ctx, pod, MaxVolumes)
	return pod
}

// Attached is how many volumes the backend holds attached to a node. Where it is not what attaches, VolumeAttachments say what the driver did.
func (b *Bench) Attached(ctx context.Context, node string) (int64, error) {
	if !b.Header.Params.Driver.Changeable() {
		all, err := b.Attachments(ctx)
		volumes := map[string]bool{}
		for _, a := range all {
			if a.Status.Attached && a.Spec.NodeName == node && a.Spec.Source.PersistentVolumeName != nil {
				volumes[*a.Spec.Source.PersistentVolumeName] = true
			}
		}
		return int64(len(volumes)), err
	}
	state, err := b.Quota.State(ctx)
	if err != nil {
		return 0, err
	}
	return state.Nodes[node].Quota.Attached, nil
}

// AwaitAttached waits until the backend holds want volumes attached to a node.
func (b *Bench) AwaitAttached(ctx context.Context, node string, want int64, within time.Duration) {
	b.Await(ctx, within, func(ctx context.Context) error {
		got, err := b.Attached(ctx, node)
		if err == nil && got != want {
			err = fmt.Errorf("backend of node %q: want %d volumes attached, got %d", node, want, got)
		}
		return err
	})
}

// PodsIn counts the bench's pods by phase.
func (b *Bench) PodsIn(ctx context.Context) (map[corev1.PodPhase]int, error) {
	pods, err := b.Client.CoreV1().Pods(b.Namespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	phases := map[corev1.PodPhase]int{}
	for _, p := range pods.Items {
		phases[p.Status.Phase]++
	}
	return phases, nil
}

// AwaitPods waits until so many of the bench's pods run and so many are pending.
func (b *Bench) AwaitPods(ctx context.Context, running, pending int, within time.Duration) {
	b.Await(ctx, within, func(ctx context.Context) error {
		phases, err := b.PodsIn(ctx)
		if err == nil && (phases[corev1.PodRunning] != running || phases[corev1.PodPending] != pending) {
			err = fmt.Errorf("pods: want %d running and %d pending, got %v", running, pending, phases)
		}
		return err
	})
}

// DeleteAllPods deletes the bench's pods, for their controllers to make again.
func (b *Bench) DeleteAllPods(ctx context.Context) {
	b.Check(b.Record("delete", "pods", b.Namespace()+"/*", "", func() error {
		return b.Client.CoreV1().Pods(b.Namespace()).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}))
}
