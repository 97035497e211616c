package upgrade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
	"headroom/fixtures/quota"
)

// The load of a walk. What stays and what comes and goes fits on all nodes but one, at every quota.
const (
	// staying is how many pods of a StatefulSet there are for each node.
	staying = 2
	// leastRoom and mostRoom are the limits between which quotas change.
	leastRoom, mostRoom = 6, 8
	// lastRoom is the limit that ends a bake: no count has it before.
	lastRoom = 7
	// quotaEvery is the time between two changes of quota, and lives how long a pod that comes and goes runs.
	quotaEvery, lives = 12 * time.Second, 2 * time.Second
	// comes bounds the time from a pod's creation to its running: its volume may have to be detached elsewhere first, or its node be drained.
	comes = run.Detached + run.Requeued + run.PodStart
)

// load is the workload of a walk and the changes of quota under it.
type load struct {
	bench  *run.Bench
	stays  string // the StatefulSet
	noisy  bool
	random *rand.Rand
	cancel context.CancelFunc
	group  sync.WaitGroup

	// quota is held while a node's quota must not change.
	quota sync.Mutex
	// api is held for reading by who writes, and for writing while nobody may.
	api sync.RWMutex

	mu     sync.Mutex
	paused bool // growth is
	errs   []error
}

// newLoad starts the workload, waits until it runs, and lets it come and go from then on.
func newLoad(ctx context.Context, b *run.Bench, seed int64, noise bool) (*load, error) {
	l := &load{bench: b, noisy: noise, random: rand.New(rand.NewPCG(uint64(seed), 0x10ad))}
	var err error
	if l.stays, err = b.StatefulSet(ctx, int32(staying*len(b.Nodes)), workload.Template{Selector: b.On()}); err != nil {
		return nil, err
	}
	if err := l.settled(ctx); err != nil {
		return nil, err
	}
	v, err := b.Volume(ctx, workload.VolumeOptions{})
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	l.group.Go(func() { l.fail(life, l.comeAndGo(life, v)) })
	l.group.Go(func() { l.fail(life, l.change(life)) })
	return l, nil
}

// settled waits until all pods that stay run.
func (l *load) settled(ctx context.Context) error {
	return l.bench.AwaitStatefulSet(ctx, l.stays, comes)
}

// end ends the load and returns what went wrong with it.
func (l *load) end() error {
	l.cancel()
	l.group.Wait()
	return l.failed()
}

func (l *load) fail(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// beside does something while the load goes on. done says whether it is over, and end cuts it short. Its failure is the load's.
func (l *load) beside(ctx context.Context, do func(context.Context) error) (done func() bool, end context.CancelFunc) {
	ctx, end = context.WithCancel(ctx)
	var over atomic.Bool
	l.group.Go(func() {
		defer over.Store(true)
		l.fail(ctx, do(ctx))
	})
	return over.Load, end
}

// failed is what went wrong so far.
func (l *load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

// pauseGrowth lets quotas rise no more, and no more pods come; resumeGrowth takes that back.
func (l *load) pauseGrowth()  { l.growth(true) }
func (l *load) resumeGrowth() { l.growth(false) }

func (l *load) growth(paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = paused
}

func (l *load) isPaused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paused
}

// hold keeps the load from writing until the function that it returns is called: what is asked of an API server that goes away may or may not be done, and
// a load that does not know what it made is none.
func (l *load) hold() (release func()) {
	l.api.Lock()
	return l.api.Unlock
}

func (l *load) writing(do func() error) error {
	l.api.RLock()
	defer l.api.RUnlock()
	return do()
}

// comeAndGo makes a pod with a volume, lets it live for a while, and deletes it, again and again.
func (l *load) comeAndGo(ctx context.Context, v workload.Volume) error {
	for {
		if l.isPaused() {
			if err := run.Pause(ctx, lives); err != nil {
				return nil
			}
			continue
		}
		var pod run.Pod
		err := l.writing(func() (err error) {
			pod, err = l.bench.Pod(ctx, l.bench.On(), v)
			return err
		})
		if err != nil {
			return err
		}
		if err := l.await(ctx, pod, "running", func(p *corev1.Pod) bool { return p == nil || p.Status.Phase == corev1.PodRunning }); err != nil {
			return err
		}
		if run.Pause(ctx, lives) != nil {
			return nil
		}
		if err := l.remove(ctx, pod); err != nil {
			return err
		}
	}
}

// remove deletes a pod and waits until it is gone.
func (l *load) remove(ctx context.Context, pod run.Pod) error {
	err := l.writing(func() error {
		return l.bench.Record("delete", "pod", pod.Namespace+"/"+pod.Name, "", func() error {
			err := l.bench.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil // a drain was first
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	return l.await(ctx, pod, "gone", func(p *corev1.Pod) bool { return p == nil })
}

// await waits until a pod is as is wants it; is gets nil when it is gone. An API server that is away is waited for.
func (l *load) await(ctx context.Context, pod run.Pod, want string, is func(*corev1.Pod) bool) error {
	return tried(func() {
		l.bench.Await(ctx, comes, func(ctx context.Context) error {
			p, err := l.bench.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				p = nil
			case err != nil:
				return err
			}
			if is(p) {
				return nil
			}
			return fmt.Errorf("pod %q: want it %s, got phase %s, reason %q, on node %q, conditions %v", pod.Name, want, p.Status.Phase, p.Status.Reason, p.Spec.NodeName, p.Status.Conditions)
		})
	})
}

// change changes the quota of one node after the other, which the seed chooses.
func (l *load) change(ctx context.Context) error {
	limits := map[string]int64{}
	for {
		if run.Pause(ctx, quotaEvery) != nil {
			return nil
		}
		node := l.bench.Nodes[l.random.IntN(len(l.bench.Nodes))]
		to := int64(leastRoom)
		if limits[node] == leastRoom {
			to = mostRoom
		}
		if to == mostRoom && l.isPaused() {
			continue
		}
		limits[node] = to
		if err := l.setLimit(ctx, node, to); err != nil {
			return cluster.Environment("change a limit", err)
		}
	}
}

// lastChange gives every node the same limit, which none has had, and keeps it until the function that it returns is called.
func (l *load) lastChange(ctx context.Context) (thaw func(), err error) {
	l.quota.Lock()
	for _, node := range l.bench.Nodes {
		if err := l.bench.Quota.SetLimit(ctx, node, lastRoom); err != nil {
			l.quota.Unlock()
			return nil, cluster.Environment("change a limit", err)
		}
	}
	return l.quota.Unlock, nil
}

func (l *load) setLimit(ctx context.Context, node string, to int64) error {
	l.quota.Lock()
	defer l.quota.Unlock()
	return l.bench.Quota.SetLimit(ctx, node, to)
}

// The load of a bake: a node whose quota falls to what it has, a pod that is on its way there all the same, and room again before the kubelet gives it up.
const squeezeFirst, squeezeEvery, squeezed = 4 * time.Second, 20 * time.Second, 8 * time.Second

// squeeze fills nodes for a while, one after the other, until the function that it returns is called: attaches are then refused, as they are in a busy
// cluster whose quota falls.
func (l *load) squeeze(ctx context.Context) (release func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var both sync.WaitGroup
		both.Go(func() { l.fail(ctx, l.fill(ctx)) })
		if l.noisy {
			both.Go(func() { l.fail(ctx, l.noise(ctx)) })
		}
		both.Wait()
	}()
	return func() {
		cancel()
		<-done
	}
}

func (l *load) fill(ctx context.Context) error {
	for i, wait := 0, squeezeFirst; ; i, wait = i+1, squeezeEvery {
		if run.Pause(ctx, wait) != nil {
			return nil
		}
		if l.isPaused() {
			continue
		}
		if err := l.fillOne(ctx, i%len(l.bench.Nodes)); err != nil {
			return err
		}
	}
}

// fillOne lets a node's quota fall to what is attached to it, sends a pod there, and gives it room after a while. The pod is taken away when it has run.
func (l *load) fillOne(ctx context.Context, i int) error {
	node := l.bench.Nodes[i]
	attached, err := l.bench.Attached(ctx, node)
	if err != nil {
		return cluster.Environment("read the backend", err)
	}
	v, err := l.bench.Volume(ctx, workload.VolumeOptions{})
	if err != nil {
		return err
	}
	// Nobody stops between these: a node must not be left full.
	life := context.WithoutCancel(ctx)
	l.quota.Lock()
	defer l.quota.Unlock()
	if err := l.bench.Quota.SetLimit(life, node, max(1, attached)); err != nil {
		return cluster.Environment("change a limit", err)
	}
	pod, err := l.bench.Pod(life, l.bench.On(i), v)
	if err == nil {
		err = run.Pause(life, squeezed)
	}
	if limit := l.bench.Quota.SetLimit(life, node, leastRoom); limit != nil {
		return errors.Join(err, cluster.Environment("change a limit", limit))
	}
	if err != nil {
		return err
	}
	if err := l.await(life, pod, "running", func(p *corev1.Pod) bool { return p == nil || p.Status.Phase == corev1.PodRunning }); err != nil {
		return err
	}
	return l.remove(life, pod)
}

// Noise is outages of the backend that end long before a driver's last good value does, and a foreign attachment on one node.
const noiseEvery, noiseLasts = 5 * time.Second, 3 * time.Second

// noise breaks the backend in one way after the other, and heals it each time.
func (l *load) noise(ctx context.Context) error {
	faults := []quota.Fault{
		{Mode: quota.Refuse}, {Mode: quota.Throttle}, {Mode: quota.Garbage, Operations: []quota.Operation{quota.Get}}, {Mode: quota.Slow, Delay: history.Duration(time.Second)},
	}
	for i := 0; ; i++ {
		if run.Pause(ctx, noiseEvery) != nil {
			return l.quiet(context.WithoutCancel(ctx))
		}
		life := context.WithoutCancel(ctx) // nobody stops between the two
		node := l.bench.Nodes[i%len(l.bench.Nodes)]
		err := errors.Join(l.bench.Quota.SetForeign(life, node, int64(i%2)), l.bench.Quota.Inject(life, faults[i%len(faults)]))
		_ = run.Pause(life, noiseLasts) // it is not cut short
		if err = errors.Join(err, l.bench.Quota.Heal(life, l.bench.Nodes...)); err != nil {
			return cluster.Environment("make noise in the backend", err)
		}
	}
}

// quiet takes what noise has left: foreign attachments.
func (l *load) quiet(ctx context.Context) error {
	var errs []error
	for _, node := range l.bench.Nodes {
		errs = append(errs, l.bench.Quota.SetForeign(ctx, node, 0))
	}
	return cluster.Environment("end the noise in the backend", errors.Join(errs...))
}
