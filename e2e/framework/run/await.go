package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// wait waits for what a step wants to see.
func (p *player) wait(ctx context.Context, w *scenario.Wait) error {
	within := time.Duration(w.Within)
	switch {
	case w.Count != nil:
		return p.await(ctx, within, func(ctx context.Context) error { return p.countIs(ctx, p.target(w.Count.Node).Node(), w.Count.Is) })
	case w.Pods != nil:
		return p.await(ctx, within, func(ctx context.Context) error { return p.podsAre(ctx, *w.Pods) })
	case w.Calls != nil:
		return p.calls(ctx, within, w.Calls)
	case w.Process != nil:
		return p.await(ctx, within, func(ctx context.Context) error { return p.processIs(ctx, w.Process) })
	}
	return errors.New("a wait for nothing")
}

func (p *player) countIs(ctx context.Context, node string, want scenario.Count) error {
	n, err := p.Client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read CSINode %q: %w", node, err)
	}
	got := scenario.Count{NoEntry: true}
	for _, d := range n.Spec.Drivers {
		switch {
		case d.Name != p.Driver:
		case d.Allocatable == nil || d.Allocatable.Count == nil:
			got = scenario.Count{Absent: true}
		default:
			got = scenario.Count{Number: *d.Allocatable.Count}
		}
	}
	if got != want {
		return fmt.Errorf("CSINode %q count: want %s, got %s", node, want, got)
	}
	return nil
}

// fits says whether a pod is in a state.
func fits(pod *corev1.Pod, s scenario.PodState) bool {
	switch s {
	case scenario.Running:
		return pod.Status.Phase == corev1.PodRunning
	case scenario.Scheduled:
		return pod.Spec.NodeName != ""
	case scenario.Waiting:
		return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending
	case scenario.Rejected:
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == RejectionReason
	case scenario.Unschedulable:
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return strings.Contains(c.Message, "exceed max volume count")
			}
		}
	}
	return false
}

// podsAre is nil when as many pods as wanted are in the state wanted.
func (p *player) podsAre(ctx context.Context, w scenario.PodsAre) error {
	all := p.pods[w.Name]
	want := w.Count
	if want == 0 {
		want = len(all)
	}
	got := 0
	var others []string
	for _, pod := range all {
		now, err := p.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read pod %q: %w", pod.Name, err)
		}
		if fits(now, w.Are) {
			got++
			continue
		}
		others = append(others, fmt.Sprintf("%s on node %q, %s %s", pod.Name, now.Spec.NodeName, now.Status.Phase, now.Status.Reason))
	}
	if got != want {
		return fmt.Errorf("pods %q: want %d of %d %s, got %d; the others: %s", w.Name, want, len(all), w.Are, got, strings.Join(others, "; "))
	}
	return nil
}

// calls waits for further calls that the kubelet makes.
func (p *player) calls(ctx context.Context, within time.Duration, w *scenario.Calls) error {
	node := p.target(w.Target).Node()
	made := func() (int, error) {
		n, err := history.Count(p.events(), history.PrefixCSI+node, func(e history.Event) bool {
			var call history.CSICall
			return e.Phase == history.Invoke && e.Key == w.Method && e.Decode(&call) == nil && call.Side == history.ClientSide && call.Driver == p.Driver
		})
		return n, cluster.Environment("read the history", err)
	}
	before, err := made()
	if err != nil {
		return err
	}
	return p.await(ctx, within, func(context.Context) error {
		now, err := made()
		if err == nil && now-before < w.More {
			err = fmt.Errorf("%s of node %q: want %d more calls, got %d", w.Method, node, w.More, now-before)
		}
		return err
	})
}

// processIs reads the last state of a process from the history.
func (p *player) processIs(ctx context.Context, w *scenario.ProcessIs) error {
	to := p.target(w.Target)
	c, err := to.Component(ctx)
	if err != nil {
		return cluster.Environment("find "+w.Target.String(), err)
	}
	writer := "cell"
	if to.Node() != "" {
		writer = to.Node()
	}
	last, version := "none", ""
	_, err = history.Count(p.events(), history.PrefixComponent+writer, func(e history.Event) bool {
		var body history.Component
		if e.Key == c.ID() && e.Decode(&body) == nil {
			last, version = body.State, cmp.Or(body.Version, version)
		}
		return false
	})
	if err != nil {
		return cluster.Environment("read the history", err)
	}
	up := last == "ready" || last == "resumed"
	if w.Is == scenario.Up && !up || w.Is == scenario.Exited && last != "exited" {
		return fmt.Errorf("process %q: want it %s, last it was %s", c.ID(), w.Is, last)
	}
	if w.Version != "" && version != string(w.Version) {
		return fmt.Errorf("process %q: want it at %s, last it was %s", c.ID(), w.Version, version)
	}
	return nil
}
