package upgrade

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/run"
)

// TestDrain: the node is closed, its pods are evicted, one whose disruption budget refuses it at first again later, and the drain ends once their volumes are
// detached. Nobody touches pods of other nodes, or one that goes already.
func TestDrain(t *testing.T) {
	r := newRig(t)
	r.podOn("a", "one")
	r.podOn("a", "two")
	r.podOn("b", "elsewhere")
	gone := metav1.NewTime(time.Now())
	going := r.podOn("a", "going")
	going.DeletionTimestamp = &gone
	r.must(r.client.Tracker().Update(podResource, going, r.Namespace()))
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r.refuse = func(pod string) error {
			if pod == "two" {
				if asked++; asked <= 3 {
					return apierrors.NewTooManyRequests("budget", 1)
				}
			}
			return nil
		}
		r.attach("a", "va-a", 20*time.Second)
		r.attach("b", "va-b", 0)
		time.AfterFunc(5*time.Second, func() { _ = r.client.Tracker().Delete(podResource, r.Namespace(), "going") })
		began := time.Now()
		if err := r.drain(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("want it to wait for the detaching after 20s, and no longer, it took %s", took)
		}
	})
	if want := []string{"one", "two"}; !slices.Equal(r.evicted, want) {
		t.Errorf("evicted: want %q, got %q", want, r.evicted)
	}
	n, err := r.client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || !n.Spec.Unschedulable {
		t.Errorf("want the node closed, got %v, %v", n, err)
	}
	keys := r.onRecord()
	for _, want := range []string{"cordon node a", "evict pod " + r.Namespace() + "/one", "evict pod " + r.Namespace() + "/two"} {
		if !slices.Contains(keys, want) {
			t.Errorf("want %q on the record, got %q", want, keys)
		}
	}
}

// TestDrainThatDoesNotEnd says what is left: a pod that nobody lets go, a volume that stays attached, an API server that forbids it.
func TestDrainThatDoesNotEnd(t *testing.T) {
	forbidden := apierrors.NewForbidden(podResource.GroupResource(), "one", errors.New("no"))
	for name, c := range map[string]struct {
		make   func(*rig)
		within time.Duration
		want   string
	}{
		"a pod stays": {func(r *rig) {
			r.podOn("a", "one")
			r.refuse = func(string) error { return apierrors.NewTooManyRequests("budget", 1) }
		}, 2 * run.Detached, "budget"},
		"a volume stays": {func(r *rig) { r.attach("a", "va-a", 0) }, 2 * run.Detached, `node "a": want no volume attached after its drain, got VolumeAttachment "va-a"`},
		"it is forbidden": {func(r *rig) {
			r.podOn("a", "one")
			r.refuse = func(string) error { return forbidden }
		}, 0, "it will not change"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			synctest.Test(t, func(t *testing.T) {
				c.make(r)
				began := time.Now()
				err := r.drain(t.Context(), "a")
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("want an error with %q, got %v", c.want, err)
				}
				if took := time.Since(began); took < c.within || took > c.within+time.Second {
					t.Errorf("want it given up after %s, it took %s", c.within, took)
				}
			})
		})
	}
}

// TestEvictWhatIsGone: a pod that went by itself meanwhile is evicted.
func TestEvictWhatIsGone(t *testing.T) {
	r := newRig(t)
	r.refuse = func(pod string) error { return apierrors.NewNotFound(podResource.GroupResource(), pod) }
	if err := r.evict(t.Context(), "gone"); err != nil {
		t.Error(err)
	}
}

func TestUncordonWaitsForThePods(t *testing.T) {
	r := newRig(t)
	r.must(r.cordon(t.Context(), "a", true))
	r.must(r.uncordon(t.Context(), "a"))
	n, err := r.client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || n.Spec.Unschedulable {
		t.Errorf("want the node open, got %v, %v", n, err)
	}
	set, err := r.client.AppsV1().StatefulSets(r.Namespace()).Get(t.Context(), "stays", metav1.GetOptions{})
	r.must(err)
	set.Status.ReadyReplicas = 0
	_, err = r.client.AppsV1().StatefulSets(r.Namespace()).UpdateStatus(t.Context(), set, metav1.UpdateOptions{})
	r.must(err)
	synctest.Test(t, func(t *testing.T) {
		if err := r.uncordon(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "want 1 pods ready, got 0") {
			t.Errorf("want it to wait for the pods that stay, got %v", err)
		}
	})
}
