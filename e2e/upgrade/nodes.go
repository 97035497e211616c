package upgrade

import (
	"context"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

// tried is how f failed through Bench.Check.
func tried(f func()) error { return run.Try("walk", f) }

// drain cordons a node, evicts its pods, and waits until they are gone and their volumes are detached.
func (w *walk) drain(ctx context.Context, node string) error {
	if err := w.cordon(ctx, node, true); err != nil {
		return err
	}
	return w.await(ctx, 2*run.Detached, func(ctx context.Context) error {
		pods, err := w.Client.CoreV1().Pods(w.Namespace()).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.DeletionTimestamp == nil {
				if err := w.evict(ctx, p.Name); err != nil {
					return err
				}
			}
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("node %q: want no pod left after its drain, got %d", node, len(pods.Items))
		}
		all, err := w.Attachments(ctx)
		if err != nil {
			return err
		}
		for _, va := range all {
			if va.Spec.NodeName == node {
				return fmt.Errorf("node %q: want no volume attached after its drain, got VolumeAttachment %q", node, va.Name)
			}
		}
		return nil
	})
}

// evict asks for a pod's eviction, as a drain does. One that is gone already is none to evict.
func (w *walk) evict(ctx context.Context, name string) error {
	return w.Record("evict", "pod", w.Namespace()+"/"+name, "", func() error {
		err := w.Client.CoreV1().Pods(w.Namespace()).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace()}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (w *walk) cordon(ctx context.Context, node string, closed bool) error {
	verb := map[bool]string{true: "cordon", false: "uncordon"}[closed]
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, closed)
	return w.Record(verb, "node", node, "", func() error {
		_, err := w.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// uncordon opens a node again, and waits until the pods that a drain sent away run.
func (w *walk) uncordon(ctx context.Context, node string) error {
	if err := w.cordon(ctx, node, false); err != nil {
		return err
	}
	return w.load.settled(ctx)
}

// stores bounds the wait for a period to be what was asked for.
const stores = 5 * time.Second

// setPeriod sets the period, and wants it stored where the API server does that.
func (w *walk) setPeriod(ctx context.Context) error {
	seconds := int64(Period / time.Second)
	if err := tried(func() { w.SetPeriod(ctx, &seconds) }); err != nil {
		return err
	}
	w.period = versions.Embedded().Works(versions.PeriodStored, w.running()).Works
	return w.awaitPeriod(ctx)
}

func (w *walk) unsetPeriod(ctx context.Context) error {
	if err := tried(func() { w.SetPeriod(ctx, nil) }); err != nil {
		return err
	}
	w.period = false
	return w.awaitPeriod(ctx)
}

// awaitPeriod waits until the CSIDriver has a period exactly if it should.
func (w *walk) awaitPeriod(ctx context.Context) error {
	return w.await(ctx, stores, func(ctx context.Context) error {
		d, err := w.Client.StorageV1().CSIDrivers().Get(ctx, w.Driver, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := d.Spec.NodeAllocatableUpdatePeriodSeconds; (got != nil) != w.period {
			text := "none"
			if got != nil {
				text = fmt.Sprint(*got)
			}
			return fmt.Errorf("CSIDriver %q under kube-apiserver %s: want a period stored: %t, got %s", w.Driver, w.server, w.period, text)
		}
		return nil
	})
}

// running is what a history's header would have of the versions that run now. Kubelets may differ; the oldest one counts.
func (w *walk) running() map[string]string {
	ran := map[string]string{}
	for k, v := range w.Header.Versions {
		ran[k] = v
	}
	ran[apiServer] = w.server.String()
	oldest := w.To
	for _, v := range w.kubelets {
		if v.Compare(oldest) < 0 {
			oldest = v
		}
	}
	ran["kubelet"] = oldest.String()
	return ran
}

// refreshes says whether a change of quota can be expected to arrive in all CSINodes: the period is set, and all act on it.
func (w *walk) refreshes() bool {
	table, ran := versions.Embedded(), w.running()
	return w.period && table.Works(versions.PeriodicRefresh, ran).Works && table.Works(versions.CountMutable, ran).Works
}
