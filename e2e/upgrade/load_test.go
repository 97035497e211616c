package upgrade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/workload"
)

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

// TestGrowthPauses: while growth is paused no pod comes and no quota rises, though quotas fall; afterwards both go on.
func TestGrowthPauses(t *testing.T) {
	r := newRig(t)
	v, err := r.Volume(t.Context(), workload.VolumeOptions{})
	r.must(err)
	synctest.Test(t, func(t *testing.T) {
		ends := []func() error{r.start(t.Context(), func(ctx context.Context) error { return r.load.comeAndGo(ctx, v) }), r.start(t.Context(), r.load.change)}
		time.Sleep(5 * time.Minute)
		if n := len(r.pods()); n < 20 {
			t.Errorf("want pods to come and go, got %d in 5m", n)
		}
		r.load.pauseGrowth()
		time.Sleep(2 * lives) // what has begun ends
		made := len(r.pods())
		before := map[string]int64{"a": r.limit("a"), "b": r.limit("b")}
		for range 100 {
			time.Sleep(quotaEvery)
			for node, was := range before {
				now := r.limit(node)
				if now > was {
					t.Fatalf("node %s: want no limit to rise while growth is paused, got %d after %d", node, now, was)
				}
				before[node] = now
			}
		}
		if before["a"] != leastRoom || before["b"] != leastRoom {
			t.Errorf("want quotas to fall all the same, got %v", before)
		}
		if n := len(r.pods()); n != made {
			t.Errorf("want no pod to come while growth is paused, got %d", n-made)
		}
		r.load.resumeGrowth()
		rose := false
		for range 20 {
			time.Sleep(quotaEvery)
			rose = rose || r.limit("a") == mostRoom || r.limit("b") == mostRoom
		}
		if n := len(r.pods()); !rose || n == made {
			t.Errorf("want quotas to rise and pods to come again, got a rise: %t, %d pods", rose, n-made)
		}
		for _, end := range ends {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFillPauses: nodes are filled one after the other, and none while growth is paused.
func TestFillPauses(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		release := r.load.squeeze(t.Context())
		time.Sleep(squeezeFirst + 3*squeezeEvery)
		filled := r.pods()
		if len(filled) < 2 {
			t.Errorf("want nodes to be filled, got pods %q", filled)
		}
		r.load.pauseGrowth()
		time.Sleep(squeezeEvery) // what has begun ends
		filled = r.pods()
		time.Sleep(10 * squeezeEvery)
		if now := r.pods(); len(now) != len(filled) {
			t.Errorf("want no node filled while growth is paused, got pods %q", now[len(filled):])
		}
		r.load.resumeGrowth()
		time.Sleep(2 * squeezeEvery)
		if now := r.pods(); len(now) == len(filled) {
			t.Error("want nodes to be filled again")
		}
		release()
	})
	if err := r.load.failed(); err != nil {
		t.Error(err)
	}
}

// TestComeAndGo: each pod has the volume, runs for a while, and is gone before the next one comes.
func TestComeAndGo(t *testing.T) {
	r := newRig(t)
	v, err := r.Volume(t.Context(), workload.VolumeOptions{})
	r.must(err)
	synctest.Test(t, func(t *testing.T) {
		end := r.start(t.Context(), func(ctx context.Context) error { return r.load.comeAndGo(ctx, v) })
		time.Sleep(10*lives + time.Second)
		pods, err := r.client.CoreV1().Pods(r.Namespace()).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 || len(r.pods()) != 11 {
			t.Errorf("want the 11th pod and no other, got %d of %d, %v", len(pods.Items), len(r.pods()), err)
		} else if claim := pods.Items[0].Spec.Volumes[0].PersistentVolumeClaim; claim == nil || claim.ClaimName != v.Claim.Name {
			t.Errorf("want it to have the volume, got %+v", pods.Items[0].Spec.Volumes)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// TestPodThatDoesNotRunFailsTheLoad: that is the walk's failure, and says what the pod looks like.
func TestPodThatDoesNotRunFailsTheLoad(t *testing.T) {
	r := newRig(t)
	p := r.podOn("a", "stuck")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r.load.fail(t.Context(), r.load.await(t.Context(), p, "running", func(p *corev1.Pod) bool { return p == nil || p.Status.Phase == corev1.PodRunning }))
		if err := r.load.failed(); err == nil || !strings.Contains(err.Error(), `pod "stuck": want it running, got phase `) || time.Since(began) < comes {
			t.Errorf("want it to fail after %s, got %v after %s", comes, err, time.Since(began))
		}
	})
}

// TestInterruptedLoadIsNoFailure: what fails once the walk has ended proves nothing.
func TestInterruptedLoadIsNoFailure(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.load.fail(ctx, nil)
	cancel()
	r.load.fail(ctx, errors.New("cut short"))
	if err := r.load.failed(); err != nil {
		t.Errorf("want no failure, got %v", err)
	}
}

// TestFillOne: a pod is sent to a node that is full, and has room again after a while, however the bake ends meanwhile.
func TestFillOne(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.load.fillOne(ctx, 1) }()
		time.Sleep(time.Second)
		if got := r.limit("b"); got != 1 || r.limit("a") != mostRoom {
			t.Errorf("want node b full, its limit 1, got %d, and %d of a", got, r.limit("a"))
		}
		if p, err := r.client.CoreV1().Pods(r.Namespace()).Get(ctx, r.pods()[0], metav1.GetOptions{}); err != nil || p.Spec.NodeName != "b" {
			t.Errorf("want a pod on b, got %v, %v", p, err)
		}
		cancel() // the bake is over
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := r.limit("b"); got != leastRoom {
			t.Errorf("want room again, got a limit of %d", got)
		}
	})
	if keys := r.onRecord(); !slices.Contains(keys, "delete pod "+r.Namespace()+"/"+r.pods()[0]) {
		t.Errorf("want the pod taken away, got %q", keys)
	}
}

// TestNoise leaves nothing: no foreign attachment, and no fault.
func TestNoise(t *testing.T) {
	r := newRig(t)
	r.load.noisy = true
	synctest.Test(t, func(t *testing.T) {
		release := r.load.squeeze(t.Context())
		foreign := false
		for range 60 {
			time.Sleep(time.Second)
			s, err := r.Quota.State(t.Context())
			r.must(err)
			foreign = foreign || s.Nodes["a"].Quota.Foreign+s.Nodes["b"].Quota.Foreign > 0
		}
		release()
		s, err := r.Quota.State(t.Context())
		r.must(err)
		if !foreign || s.Nodes["a"].Quota.Foreign+s.Nodes["b"].Quota.Foreign != 0 {
			t.Errorf("want foreign attachments that come and go, got %t and %+v", foreign, s.Nodes)
		}
	})
	if err := r.load.failed(); err != nil {
		t.Error(err)
	}
}

// TestLastChange gives every node what none had, and nobody changes it before it thaws.
func TestLastChange(t *testing.T) {
	r := newRig(t)
	thaw, err := r.load.lastChange(t.Context())
	r.must(err)
	if a, b := r.limit("a"), r.limit("b"); a != lastRoom || b != lastRoom {
		t.Errorf("want %d everywhere, got %d and %d", lastRoom, a, b)
	}
	changed := make(chan error, 1)
	go func() { changed <- r.load.setLimit(t.Context(), "a", leastRoom) }()
	select {
	case <-changed:
		t.Error("want no change before it thaws")
	case <-time.After(50 * time.Millisecond):
	}
	thaw()
	if err := <-changed; err != nil || r.limit("a") != leastRoom {
		t.Errorf("want it changed then, got %d, %v", r.limit("a"), err)
	}
}

// TestHoldKeepsTheLoadFromWriting while an API server is swapped.
func TestHoldKeepsTheLoadFromWriting(t *testing.T) {
	r := newRig(t)
	release := r.load.hold()
	wrote := make(chan error, 1)
	go func() { wrote <- r.load.writing(func() error { return nil }) }()
	select {
	case <-wrote:
		t.Error("want no write while it is held")
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// TestStaleWrite: what was read before a change of quota arrived is written after it, in the administrator's name and on the record.
func TestStaleWrite(t *testing.T) {
	for _, c := range []struct{ read, to int32 }{{mostRoom, leastRoom}, {leastRoom, mostRoom}} {
		r := newRig(t)
		r.period, r.server = true, "v1.36.3"
		r.kubelets["a"], r.kubelets["b"] = "v1.36.3", "v1.36.3"
		r.bakes = &watcher{walk: r.walk}
		r.counted("a", c.read)
		synctest.Test(t, func(t *testing.T) {
			done, _ := r.load.beside(t.Context(), r.staleWrite)
			time.Sleep(Period)
			if got := r.limit("a"); got != int64(c.to) || done() {
				t.Errorf("want a limit of %d, and it waiting for the count, got %d, done %t", c.to, got, done())
			}
			r.counted("a", c.to) // the kubelet's tick
			time.Sleep(time.Second)
			got, err := r.Count(t.Context(), "a")
			if err != nil || got == nil || *got != c.read || !done() {
				t.Errorf("want the old count %d back, got %v, %v, done %t", c.read, got, err, done())
			}
		})
		if err := r.load.failed(); err != nil || !slices.Contains(r.onRecord(), "update csinode a") {
			t.Errorf("want the write on the record, got %q, %v", r.onRecord(), err)
		}
	}
}

// TestStaleWriteFails: a count that does not follow its quota is the load's failure, and a write that is cut short is none.
func TestStaleWriteFails(t *testing.T) {
	r := newRig(t)
	r.period, r.server = true, "v1.36.3"
	r.kubelets["a"], r.kubelets["b"] = "v1.36.3", "v1.36.3"
	r.bakes = &watcher{walk: r.walk}
	synctest.Test(t, func(t *testing.T) {
		r.counted("a", mostRoom)
		_, end := r.load.beside(t.Context(), r.staleWrite)
		time.Sleep(time.Second)
		end()
		synctest.Wait()
		if err := r.load.failed(); err != nil {
			t.Errorf("cut short: want no failure, got %v", err)
		}
		done, _ := r.load.beside(t.Context(), r.staleWrite)
		time.Sleep(10 * time.Minute)
		if err := r.load.failed(); err == nil || !strings.Contains(err.Error(), `CSINode "a" count: want 6, got 8`) || !done() {
			t.Errorf("a count that does not follow: want the load to fail, got %v, done %t", err, done())
		}
	})
}
