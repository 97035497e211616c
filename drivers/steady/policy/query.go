package policy

import (
	"context"
	"fmt"
	"math"
	"time"

	"headroom/e2e/framework/history"
)

// flight is one query that everybody waits for who needs an answer meanwhile.
type flight struct{ done chan struct{} }

// attempt is a query that ended.
type attempt struct {
	start time.Duration
	done  bool // there was one
	ok    bool
}

// Run keeps what is known fresh, at moments of the policy's own, until ctx ends. Without it the backend would be asked when the kubelets
// ask, and these can be aligned over the whole cluster (a changed period restarts all their tickers at once).
func (p *Policy) Run(ctx context.Context) {
	if p.cfg.OnDemand {
		return
	}
	for ctx.Err() == nil && p.base.Err() == nil {
		select {
		case <-p.join().done:
		case <-ctx.Done():
		}
	}
}

// asked reports whether a query that ended was started at since or later.
func (p *Policy) asked(since time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempt.done && p.attempt.start >= since
}

// join returns the query under way, or starts one.
func (p *Policy) join() *flight {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flight == nil {
		p.flight = &flight{done: make(chan struct{})}
		go p.fly(p.flight)
	}
	return p.flight
}

// fly waits until a query is allowed, makes it, and takes in what came of it. It belongs to no caller: one that gives up does not take the
// answer away from the others.
func (p *Policy) fly(f *flight) {
	defer close(f.done)
	for wait := p.untilAllowed(); wait > 0 && p.base.Err() == nil; wait = p.untilAllowed() {
		sleep(p.base, wait)
	}
	if !p.leads() {
		return
	}
	start := p.now()
	ctx, cancel := context.WithTimeout(p.base, p.cfg.queryTimeout())
	defer cancel()
	quota, err := p.opts.Backend.Get(ctx, p.opts.Node)
	if err == nil {
		err = plausible(quota)
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err() // too late to be believed
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.nowLocked()
	p.flight = nil
	if p.base.Err() != nil {
		return // closed, which says nothing about the backend
	}
	if err == nil {
		err = p.state.outdated(quota)
	}
	if err != nil && (!p.attempt.done || p.attempt.ok) {
		p.opts.Logf("node %q: no quota from the backend: %v", p.opts.Node, err)
	}
	before := p.state
	p.attempt = attempt{start: start, done: true, ok: err == nil}
	// Counted from the end: the backend sees a query somewhere between its start and its end, so starts alone could come closer there.
	p.next = end + p.cfg.MinInterval + time.Duration(p.opts.Rand.Float64()*0.8*float64(p.cfg.CacheAge-p.cfg.MinInterval))
	if err == nil {
		p.state.fresh(p.cfg, quota, start, end)
	} else {
		p.state.failed(p.cfg, end, p.opts.Attachments)
	}
	if p.state != before {
		p.save()
	}
}

// leads takes or renews the lease before a query. An instance without it looks again an interval later.
func (p *Policy) leads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lead() {
		return true
	}
	p.flight = nil
	p.next = p.nowLocked() + p.cfg.MinInterval
	return false
}

func (p *Policy) untilAllowed() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next - p.nowLocked()
}

// plausible refuses quotas that no backend means. A limit of 0 or less is plausible: it means that nothing may be attached.
func plausible(q history.Quota) error {
	switch {
	case q.Limit > math.MaxInt32:
		return fmt.Errorf("implausible quota: limit %d, want at most %d", q.Limit, math.MaxInt32)
	case q.Foreign < 0 || q.Foreign > math.MaxInt32:
		return fmt.Errorf("implausible quota: foreign %d, want 0 to %d", q.Foreign, math.MaxInt32)
	case q.Attached < 0 || q.Attached > math.MaxInt32:
		return fmt.Errorf("implausible quota: attached %d, want 0 to %d", q.Attached, math.MaxInt32)
	}
	return nil
}

// due is how long a rise is still away, when that is so little that waiting is better than missing it: the kubelet asks at a fixed period,
// often the very interval of the steps, and a millisecond too early would cost a whole period.
func (p *Policy) due() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	grace := min(p.cfg.StepInterval/10, time.Second)
	d := p.state.untilRise(p.cfg, p.nowLocked())
	if d > grace {
		return 0
	}
	return d
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
