package policy

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headroom/e2e/framework/history"
)

// figures are those of drivers/steady.yaml.
var figures = Config{
	MinInterval: time.Second, CacheAge: 2 * time.Second, LastGoodLife: 30 * time.Second, Step: 2, StepInterval: 10 * time.Second,
}

var errDown = errors.New("backend is down")

// testClock is the bubble's time, which can be set back.
type testClock struct {
	mu    sync.Mutex
	start time.Time
	back  time.Duration
}

func (c *testClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.start) + time.Hour - c.back
}

func (c *testClock) setBack(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back += d
}

// testBackend answers what it is set to, and remembers when it was asked.
type testBackend struct {
	mu      sync.Mutex
	quota   history.Quota
	err     error
	hang    bool
	latency time.Duration
	asked   []time.Time
}

func (b *testBackend) Get(ctx context.Context, node string) (history.Quota, error) {
	b.mu.Lock()
	b.asked = append(b.asked, time.Now())
	latency, hang := b.latency, b.hang
	b.mu.Unlock()
	if hang {
		<-ctx.Done()
		return history.Quota{}, ctx.Err()
	}
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return history.Quota{}, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.quota, b.err
}

func (b *testBackend) set(f func(*testBackend)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

func (b *testBackend) queries() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// rig is a policy with everything that it works with.
type rig struct {
	t       *testing.T
	clock   *testClock
	backend *testBackend
	store   FileStore
	boot    string
	inUse   int64
	cfg     Config
	policy  *Policy
}

func newRig(t *testing.T, q history.Quota) *rig {
	r := &rig{
		t: t, clock: &testClock{start: time.Now()}, backend: &testBackend{quota: q}, boot: "boot-1", cfg: figures,
		store: FileStore(filepath.Join(t.TempDir(), "state", "capacity.json")),
	}
	r.start()
	return r
}

// start makes a new instance over the same state, as a restarted driver does.
func (r *rig) start() {
	r.t.Helper()
	if r.policy != nil {
		r.policy.Close()
	}
	p, err := New(Options{
		Node: "n1", Config: r.cfg, Backend: r.backend, Store: r.store, Clock: r.clock, Boot: r.boot, Rand: rand.New(rand.NewPCG(1, 2)),
		Attachments: func() int64 { return r.inUse }, Logf: r.t.Logf,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.policy = p
}

func (r *rig) want(want int64) {
	r.t.Helper()
	if got := r.answer(); got != want {
		r.t.Fatalf("answer after %s: want %d, got %d", time.Since(r.clock.start), want, got)
	}
}

func (r *rig) answer() int64 {
	r.t.Helper()
	got, err := r.policy.Answer(context.Background())
	if err != nil {
		r.t.Fatalf("answer after %s: %v", time.Since(r.clock.start), err)
	}
	return got
}

func (r *rig) down() { r.backend.set(func(b *testBackend) { b.err = errDown }) }

func (r *rig) up(q history.Quota) {
	r.backend.set(func(b *testBackend) { b.err, b.hang, b.quota = nil, false, q })
}

func quotaOf(limit, foreign, attached int64) history.Quota {
	return history.Quota{Limit: limit, Foreign: foreign, Attached: attached, Generation: 1}
}

// bubble runs f under fake time; a rig made in it is closed at the end.
func bubble(t *testing.T, q history.Quota, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, q)
		defer func() { r.policy.Close(); synctest.Wait() }()
		f(r)
	})
}

func TestFirstAnswer(t *testing.T) {
	cases := map[string]struct {
		quota history.Quota
		err   error
		want  int64
	}{
		"total, not the remainder":       {quotaOf(8, 0, 5), nil, 8},
		"foreign attachments taken off":  {quotaOf(8, 3, 0), nil, 5},
		"limit 0":                        {quotaOf(0, 0, 0), nil, 1},
		"limit negative":                 {quotaOf(-7, 0, 0), nil, 1},
		"limit lowest there is":          {quotaOf(math.MinInt64, 9, 0), nil, 1},
		"foreign takes all":              {quotaOf(4, 4, 0), nil, 1},
		"foreign takes more than all":    {quotaOf(4, 9, 0), nil, 1},
		"highest plausible":              {quotaOf(math.MaxInt32, 0, 0), nil, math.MaxInt32},
		"implausible limit":              {quotaOf(math.MaxInt32+1, 0, 0), nil, 1},
		"implausible foreign":            {quotaOf(8, -1, 0), nil, 1},
		"implausible attached":           {quotaOf(8, 0, -1), nil, 1},
		"backend down, nothing known":    {quotaOf(8, 0, 0), errDown, 1},
		"attached above a lowered limit": {quotaOf(3, 0, 6), nil, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.quota, func(r *rig) {
				r.backend.set(func(b *testBackend) { b.err = c.err })
				r.want(c.want)
			})
		})
	}
}

func TestFallsAtOnceEvenWhileRising(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		r.want(8)
		r.up(quotaOf(2, 0, 0))
		time.Sleep(3 * time.Second)
		r.want(2)
		r.up(quotaOf(9, 0, 0))
		time.Sleep(10 * time.Second)
		r.want(4)
		r.up(quotaOf(3, 0, 0))
		time.Sleep(3 * time.Second)
		r.want(3)
	})
}

func TestRisesByStepsOfTheInterval(t *testing.T) {
	bubble(t, quotaOf(3, 0, 0), func(r *rig) {
		r.want(3)
		r.up(quotaOf(8, 0, 0))
		time.Sleep(15 * time.Second)
		r.want(5) // an interval has long passed, so the first step comes at once
		time.Sleep(8 * time.Second)
		r.want(5)
		time.Sleep(2 * time.Second)
		r.want(7)
		time.Sleep(30 * time.Second)
		r.want(8) // the rest of the way, and one step only however long nobody asked
	})
}

func TestWaitsForARiseThatIsAlmostDue(t *testing.T) {
	bubble(t, quotaOf(3, 0, 0), func(r *rig) {
		r.want(3)
		r.up(quotaOf(9, 0, 0))
		time.Sleep(20 * time.Second)
		r.want(5)
		rose := time.Now()
		time.Sleep(9500 * time.Millisecond)
		r.want(7)
		if took := time.Since(rose); took != 10*time.Second {
			t.Fatalf("second rise: want exactly one interval after the first, got %s", took)
		}
	})
}

func TestStepsNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaOf(3, 0, 0))
		r.cfg.Step, r.cfg.StepInterval = 0, 0
		r.start()
		r.want(3)
		r.up(quotaOf(100, 0, 0))
		time.Sleep(3 * time.Second)
		r.want(100)
	})
}

func TestRefusalHoldsBackRises(t *testing.T) {
	bubble(t, quotaOf(3, 0, 0), func(r *rig) {
		r.want(3)
		r.up(quotaOf(9, 0, 0))
		time.Sleep(15 * time.Second)
		r.want(5)
		for range 4 { // one refusal each 8 s: there is never an interval without
			time.Sleep(8 * time.Second)
			r.policy.Refused()
			r.want(5)
		}
		r.start() // a restart does not forget it
		time.Sleep(8 * time.Second)
		r.want(5)
		time.Sleep(3 * time.Second)
		r.want(7)
	})
}

func TestFullNodeHoldsBackRisesAboveWhatIsAttached(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		r.want(8)
		r.up(quotaOf(2, 0, 6))
		time.Sleep(3 * time.Second)
		r.want(2)
		r.up(quotaOf(6, 0, 6)) // still full, but rising to 6 admits nothing
		time.Sleep(10 * time.Second)
		r.want(4)
		time.Sleep(10 * time.Second)
		r.want(6)
		time.Sleep(20 * time.Second)
		r.want(6) // asked while full: a refusal here would be seen only this way
		r.up(quotaOf(12, 0, 6))
		time.Sleep(3 * time.Second)
		r.want(6)
		time.Sleep(7 * time.Second)
		r.want(8)
	})
}

func TestConfigValidate(t *testing.T) {
	cases := map[string]func(*Config){
		"minimum interval": func(c *Config) { c.MinInterval = 0 },
		"cache age":        func(c *Config) { c.CacheAge = c.MinInterval - 1 },
		"last-good life":   func(c *Config) { c.LastGoodLife = c.CacheAge - 1 },
		"step":             func(c *Config) { c.Step = -1 },
		"step interval":    func(c *Config) { c.StepInterval = 0 },
		"query timeout":    func(c *Config) { c.QueryTimeout = -1 },
	}
	if err := figures.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range cases {
		c := figures
		change(&c)
		if _, err := New(Options{Config: c}); err == nil {
			t.Errorf("%s: want an error for %+v", name, c)
		}
	}
	if _, err := New(Options{Config: figures}); err == nil {
		t.Error("want an error without a backend")
	}
}
