// Package policy decides how many volumes a node says it can take.
//
// Contract: Answer always has a number of at least 1, whatever the backend does, because to Kubernetes an answer of 0, an error at
// registration and a missing count all mean "unlimited". What it promises:
//
//   - the backend is asked at most once per Config.MinInterval, at moments of the policy's own (jittered), and one answer serves every
//     caller that waits for it;
//   - the number is the total that Kubernetes may use (limit minus foreign attachments), never what is left of it;
//   - it falls at once, and rises by at most Config.Step per Config.StepInterval, only on a fresh answer, and not within an interval of a
//     refused attach;
//   - while the backend does not answer, the last good value stands for Config.LastGoodLife, a restart of the driver included; after that
//     max(1, volumes attached at that moment), no higher than the last good value, frozen until the backend answers again;
//   - an answer of an older generation than the last good one counts as no answer, as long as that one stands;
//   - before any quota was ever known: 1;
//   - an instance that does not hold the node's lease (lease.go), because a newer version does, asks nobody and answers what the holder saved last.
//
// It reads one clock, one source of randomness, one Backend and one Store, all given to it. It does not attach, does not check an attach
// (the backend does), and knows no CSI.
package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"headroom/e2e/framework/history"
)

// Backend is what the policy asks. Any error counts as no answer.
type Backend interface {
	Get(ctx context.Context, node string) (history.Quota, error)
}

// Clock is time since the machine booted, suspension included. A clock that goes backwards is tolerated: the policy's time then stands
// still for that one reading and goes on from there.
type Clock interface {
	Now() time.Duration
}

// Config are the figures that a driver declares.
type Config struct {
	// MinInterval is the least time between the end of one query and the start of the next. Above 0.
	MinInterval time.Duration
	// CacheAge is how old an answer may be, from the start of its query, for a call that begins now. At least MinInterval.
	CacheAge time.Duration
	// LastGoodLife is how long the last good value stands while the backend does not answer, from the start of its query. At least CacheAge.
	LastGoodLife time.Duration
	// Step is the most that one rise adds; 0 means that rises are not limited.
	Step int64
	// StepInterval is the least time between two rises, and between a fall or a refused attach and the next rise. Above 0 when Step is.
	StepInterval time.Duration
	// QueryTimeout bounds one query; 0 means twice CacheAge.
	QueryTimeout time.Duration
	// OnDemand makes Run do nothing: the backend is then asked only when a call needs it, at the kubelet's moments instead of the policy's.
	OnDemand bool
}

// Validate says which figure contradicts which.
func (c Config) Validate() error {
	switch {
	case c.MinInterval <= 0:
		return fmt.Errorf("minimum interval: want above 0, got %s", c.MinInterval)
	case c.CacheAge < c.MinInterval:
		return fmt.Errorf("cache age: want at least the minimum interval %s, got %s", c.MinInterval, c.CacheAge)
	case c.LastGoodLife < c.CacheAge:
		return fmt.Errorf("last-good life: want at least the cache age %s, got %s", c.CacheAge, c.LastGoodLife)
	case c.Step < 0:
		return fmt.Errorf("step: want 0 (not limited) or more, got %d", c.Step)
	case c.Step > 0 && c.StepInterval <= 0:
		return fmt.Errorf("step interval: want above 0 with a step of %d, got %s", c.Step, c.StepInterval)
	case c.QueryTimeout < 0:
		return fmt.Errorf("query timeout: want 0 or more, got %s", c.QueryTimeout)
	}
	return nil
}

func (c Config) queryTimeout() time.Duration {
	if c.QueryTimeout > 0 {
		return c.QueryTimeout
	}
	return 2 * c.CacheAge
}

// Options is everything that a policy works with.
type Options struct {
	// Node is the name that the backend knows the node by.
	Node    string
	Config  Config
	Backend Backend
	Store   Store
	Clock   Clock
	// Boot names the boot that Clock counts from. The age of a value saved under another boot cannot be known: it counts as expired.
	Boot string
	// Rand is used under the policy's lock only.
	Rand *rand.Rand
	// Attachments is how many volumes the node itself knows to be in use; nil means that it knows of none.
	Attachments func() int64
	// Lease is what this instance claims of the node's lease; without a store in it there is none.
	Lease Claim
	// Logf tells what goes wrong without stopping the policy; nil discards it.
	Logf func(format string, args ...any)
}

// Policy is one node's capacity. Its methods are safe for concurrent use.
type Policy struct {
	opts Options
	cfg  Config
	base context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	state   State
	flight  *flight
	attempt attempt       // the last query that ended
	next    time.Duration // no query starts before
	seen    time.Duration // the clock's last reading
	skew    time.Duration // what the clock lost by going backwards
	holds   bool          // the lease, when it was last looked at
	ended   bool          // the lease was released and is not taken again
}

// New makes the policy of one node from what was saved of it. A saved state that cannot be read counts as none and is not an error: refusing
// to start would leave the node without a limit.
func New(opts Options) (*Policy, error) {
	if err := errors.Join(opts.Config.Validate(), opts.Lease.Validate()); err != nil {
		return nil, fmt.Errorf("capacity policy of node %q: %w", opts.Node, err)
	}
	if opts.Node == "" || opts.Backend == nil || opts.Store == nil || opts.Clock == nil || opts.Rand == nil {
		return nil, errors.New("capacity policy: node, backend, store, clock and random source are all needed")
	}
	if opts.Attachments == nil {
		opts.Attachments = func() int64 { return 0 }
	}
	if opts.Logf == nil {
		opts.Logf = func(string, ...any) {}
	}
	p := &Policy{opts: opts, cfg: opts.Config, seen: opts.Clock.Now()}
	p.base, p.stop = context.WithCancel(context.Background())
	saved, found, err := opts.Store.Load()
	if err == nil && found {
		err = saved.check()
	}
	if err != nil {
		opts.Logf("node %q: saved capacity is unreadable and counts as none: %v", opts.Node, err)
		saved = State{}
	}
	p.state = saved.resume(p.cfg, opts.Boot, p.seen)
	p.holds = true
	if p.holds = p.hold(); found {
		// The instance before this one may have asked a moment ago.
		p.next = p.seen + p.cfg.MinInterval
	} else {
		p.save()
	}
	return p, nil
}

// Answer is the number of volumes to report now, 1 or more. It waits for the backend where what is known is older than the cache age, but
// never longer than half of the time that ctx leaves, so that an answer still gets there. It reports an error only when ctx has ended.
func (p *Policy) Answer(ctx context.Context) (int64, error) {
	wait := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	start := p.now()
	if answer, led := p.ledByAnother(); led {
		return answer, ctx.Err()
	}
	for !p.asked(start-p.cfg.CacheAge) && wait.Err() == nil && p.base.Err() == nil && p.Holds() {
		select {
		case <-p.join().done:
		case <-wait.Done():
		}
	}
	if d := p.due(); d > 0 {
		sleep(wait, d)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lead() { // lost while it waited
		return max(1, p.state.Answer), nil
	}
	before := p.state
	if !p.attempt.done || p.attempt.start < start-p.cfg.CacheAge {
		p.state.Fresh = false // the wait ended without an answer, which is no ground to rise on
	}
	answer := p.state.settle(p.cfg, p.nowLocked(), p.opts.Attachments)
	if p.state != before {
		p.save()
	}
	return answer, nil
}

// Refused tells the policy that the backend refused an attach because the node is full.
func (p *Policy) Refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.RefusedUntil = p.nowLocked() + p.cfg.StepInterval
	p.save()
}

// Failing reports whether the last query got no usable answer.
func (p *Policy) Failing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempt.done && !p.attempt.ok
}

// Close ends queries under way. Answer works on from what is known.
func (p *Policy) Close() { p.stop() }

func (p *Policy) now() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nowLocked()
}

func (p *Policy) nowLocked() time.Duration {
	t := p.opts.Clock.Now()
	if t < p.seen {
		p.skew += p.seen - t
		p.attempt = attempt{} // how old it is cannot be told any more
	}
	p.seen = t
	return t + p.skew
}

// save keeps the state for the next instance; it is the holder's of the lease alone.
func (p *Policy) save() {
	if !p.holds {
		return
	}
	s := p.state
	s.Boot = p.opts.Boot
	if err := p.opts.Store.Save(s); err != nil {
		p.opts.Logf("node %q: capacity is not saved, a restart would not know it: %v", p.opts.Node, err)
	}
}
