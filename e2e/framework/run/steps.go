package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/workload"
	"headroom/fixtures/quota"
)

// PodStart bounds the time from a pod's creation to its running, when nothing stands in its way.
const PodStart = 60 * time.Second

// Scheduled bounds the time that the scheduler needs to decide on a pod.
const Scheduled = 15 * time.Second

// Slack is what is added to bounds that the product sets.
func (b *Bench) Slack() time.Duration { return time.Duration(b.Header.Params.Slack) }

// SetLimit changes what the backend lets be attached to a node.
func (b *Bench) SetLimit(ctx context.Context, node string, limit int64) {
	b.changes()
	b.Check(cluster.Environment("change a limit", b.Quota.SetLimit(ctx, node, limit)))
}

// SetForeign changes how many of a node's slots are taken outside Kubernetes.
func (b *Bench) SetForeign(ctx context.Context, node string, n int64) {
	b.changes()
	b.Check(cluster.Environment("change foreign attachments", b.Quota.SetForeign(ctx, node, n)))
}

// Break makes the backend fail for nodes of the bench.
func (b *Bench) Break(ctx context.Context, f quota.Fault) {
	b.changes()
	b.Check(cluster.Environment("break the backend", b.Quota.Inject(ctx, f)))
}

// changes refuses what a spec did not say that it does: with a driver whose limit cannot change it would fail in the driver's name.
func (b *Bench) changes() {
	if !b.Setup.Changes {
		b.Check(cluster.Environment("change a limit", errors.New("the spec's Setup has no Changes")))
	}
}

// Heal ends the backend's faults for nodes of the bench.
func (b *Bench) Heal(ctx context.Context) {
	b.Check(cluster.Environment("heal the backend", b.Quota.Heal(ctx, b.Nodes...)))
}

// NewVolume makes a plain volume.
func (b *Bench) NewVolume(ctx context.Context) workload.Volume {
	v, err := b.Volume(ctx, workload.VolumeOptions{})
	b.Check(err)
	return v
}

// StartPods makes n pods with a volume each, anywhere on the bench, and waits until all run.
func (b *Bench) StartPods(ctx context.Context, n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		var err error
		pods[i], err = b.Pod(ctx, b.On(), b.NewVolume(ctx))
		b.Check(err)
	}
	for _, pod := range pods {
		b.Check(b.AwaitRunning(ctx, pod, PodStart))
	}
	return pods
}

// AwaitUnschedulable waits until the scheduler says why it places a pod nowhere.
func (b *Bench) AwaitUnschedulable(ctx context.Context, pod *corev1.Pod, because string) {
	b.Await(ctx, Scheduled, func(ctx context.Context) error {
		p, err := b.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Spec.NodeName != "" {
			return fmt.Errorf("pod %q: want it unschedulable (%s), got it on node %q: %w", pod.Name, because, p.Spec.NodeName, ErrPermanent)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, because) {
				return nil
			}
		}
		return fmt.Errorf("pod %q: want it unschedulable (%s), got conditions %v", pod.Name, because, p.Status.Conditions)
	})
}

// StillRunning checks that a pod runs, now.
func (b *Bench) StillRunning(ctx context.Context, pod *corev1.Pod) {
	p, err := b.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	b.Check(err)
	if p.Status.Phase != corev1.PodRunning || p.UID != pod.UID {
		b.Check(fmt.Errorf("pod %q: want it still running, got phase %s, reason %q", pod.Name, p.Status.Phase, p.Status.Reason))
	}
}

// Rejection bounds the time from the kubelet's first look at a pod to its rejection: podAttachAndMountTimeout is 2 m 3 s (kubernetes
// pkg/kubelet/volumemanager/volume_manager.go), and the pod's next sync may be 15 s late.
const Rejection = 138 * time.Second

// RejectionReason is the reason of a pod that was rejected for lack of attach capacity.
const RejectionReason = history.RejectionReason

// Administrator is the API user in whose name specs write.
const Administrator = "headroom-admin"

// Pod is a pod of the bench.
type Pod = *corev1.Pod

// RiseWithin bounds the time until a count that rises from one value to another is in CSINode: the driver may rise by its declared step per declared
// interval, and the kubelet needs a period to see each value.
func (b *Bench) RiseWithin(from, to int64) time.Duration {
	d := b.Header.Params.Driver
	rise := time.Duration(d.CacheAge) + 2*b.Setup.Period + b.Slack()
	if d.Step > 0 {
		steps := (to - from + d.Step - 1) / d.Step
		rise += time.Duration(steps) * max(time.Duration(d.StepInterval), b.Setup.Period)
	}
	return rise
}

// AwaitScheduled waits until the scheduler has placed a pod.
func (b *Bench) AwaitScheduled(ctx context.Context, pod Pod) {
	b.Await(ctx, Scheduled, func(ctx context.Context) error {
		p, err := b.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Spec.NodeName == "" {
			return fmt.Errorf("pod %q: want it on a node, got conditions %v", pod.Name, p.Status.Conditions)
		}
		return nil
	})
}

// AttachAnswer bounds the time from a pod's being placed to the code of its attach error: the attacher may wait 15 s for the driver, twice.
const AttachAnswer = 35 * time.Second

// AwaitAttachCode waits until a VolumeAttachment of the driver on the node carries one of the codes in its attach error. Another code, or none, is the
// driver's failure: the attacher passes on what it was told.
func (b *Bench) AwaitAttachCode(ctx context.Context, node, why string, want ...codes.Code) {
	b.Check(Blame(history.Driver, b.await(ctx, AttachAnswer, func(ctx context.Context) error {
		all, err := b.Attachments(ctx)
		if err != nil {
			return err
		}
		last := fmt.Errorf("node %q (%s): want a VolumeAttachment of driver %q, got none", node, why, b.Driver)
		for _, va := range all {
			if va.Spec.NodeName != node || va.Status.Attached {
				continue
			}
			e := va.Status.AttachError
			if e != nil && e.ErrorCode != nil && slices.Contains(want, codes.Code(*e.ErrorCode)) {
				return nil
			}
			last = fmt.Errorf("VolumeAttachment of node %q (%s): want errorCode %v, got %s", node, why, want, Describe(e))
		}
		return last
	})))
}

// Describe is an attach error for messages.
func Describe(e *storagev1.VolumeError) string {
	switch {
	case e == nil:
		return "no error"
	case e.ErrorCode == nil:
		return fmt.Sprintf("no code, with message %q", e.Message)
	}
	return fmt.Sprintf("%v, with message %q", codes.Code(*e.ErrorCode), e.Message)
}

// StillPending checks that a pod is on its node and waits, now.
func (b *Bench) StillPending(ctx context.Context, pod Pod) {
	p, err := b.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	b.Check(err)
	if p.Status.Phase != corev1.PodPending || p.Spec.NodeName == "" {
		b.Check(fmt.Errorf("pod %q: want it waiting on its node, got phase %s, reason %q, node %q", pod.Name, p.Status.Phase, p.Status.Reason, p.Spec.NodeName))
	}
}

// Asked counts the NodeGetInfo calls that the kubelet of a node has made so far, from the history.
func (b *Bench) Asked(_ context.Context, node string) int {
	return b.Seen(history.PrefixCSI+node, func(e history.Event) bool {
		var call history.CSICall
		return e.Phase == history.Invoke && e.Key == "NodeGetInfo" && e.Decode(&call) == nil && call.Side == history.ClientSide && call.Driver == b.Driver
	})
}

// Seen counts the events of one source, so far, that match.
func (b *Bench) Seen(source string, match func(history.Event) bool) int {
	n, err := history.Count(b.events(), source, match)
	b.Check(cluster.Environment("read the history", err))
	return n
}
