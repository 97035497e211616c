package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Lease is the claim of a driver version to speak for a node. It lies beside the node's state, where every instance on the node finds it.
type Lease struct {
	// Boot is the boot that Until counts from.
	Boot string `json:"boot"`
	// Version is the holder's: instances of one version hold it together.
	Version int64 `json:"version"`
	// Epoch is the downgrade epoch of the holder; it never falls.
	Epoch int64 `json:"epoch"`
	// Until is when the lease expires unless it is renewed; 0 means that it was released.
	Until time.Duration `json:"until"`
}

// Claim is what an instance brings to the lease.
type Claim struct {
	// Version rises with each release of the driver.
	Version int64
	// Epoch is raised by whoever rolls a driver back: an instance of a higher epoch takes the lease from any version at once, and one of a lower epoch
	// never gets it back.
	Epoch int64
	// Life is how long the lease stands after its last renewal, which comes once half of it is over. Above 0.
	Life time.Duration
	// Store keeps the lease; nil means that there is none and every instance speaks.
	Store LeaseStore
}

// LeaseStore keeps one lease for all instances on a node.
type LeaseStore interface {
	// Update replaces the lease by what change makes of it, nobody else changing it meanwhile; the zero Lease is none.
	Update(change func(Lease) Lease) error
}

// Validate says which figure cannot be.
func (c Claim) Validate() error {
	switch {
	case c.Store == nil:
		return nil
	case c.Life <= 0:
		return fmt.Errorf("lease life: want above 0, got %s", c.Life)
	case c.Version < 0 || c.Epoch < 0:
		return fmt.Errorf("lease: want a version and an epoch of 0 or more, got %d and %d", c.Version, c.Epoch)
	}
	return nil
}

// mayTake says whether the claim beats lease l at now. A lease of another boot has expired.
func (c Claim) mayTake(l Lease, boot string, now time.Duration) bool {
	switch {
	case c.Epoch != l.Epoch:
		return c.Epoch > l.Epoch
	case l.Boot != boot || now >= l.Until || l.Until > now+c.Life:
		return true
	}
	return c.Version >= l.Version
}

// has says whether the lease is the claim's own.
func (c Claim) has(l Lease) bool { return l.Version == c.Version && l.Epoch == c.Epoch }

// hold takes or renews the lease and reports whether the claim has it. A store that fails leaves everything as it was: two instances that speak are
// less harm than none.
func (p *Policy) hold() bool {
	c := p.opts.Lease
	switch {
	case c.Store == nil:
		return true
	case p.ended:
		return false
	}
	now, held := p.opts.Clock.Now(), false
	err := c.Store.Update(func(l Lease) Lease {
		held = c.mayTake(l, p.opts.Boot, now)
		if fresh := c.has(l) && l.Boot == p.opts.Boot && l.Until-now > c.Life/2; held && !fresh {
			l = Lease{Boot: p.opts.Boot, Version: c.Version, Epoch: c.Epoch, Until: now + c.Life}
		}
		return l
	})
	if err != nil {
		p.opts.Logf("node %q: the lease cannot be read or kept: %v", p.opts.Node, err)
		return p.holds
	}
	return held
}

// Release gives the lease up, so that another version need not wait for its end. It is for an instance that ends.
func (p *Policy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.opts.Lease
	if c.Store == nil || !p.holds {
		return
	}
	p.holds, p.ended = false, true
	err := c.Store.Update(func(l Lease) Lease {
		if c.has(l) {
			l.Until = 0
		}
		return l
	})
	if err != nil {
		p.opts.Logf("node %q: the lease is not released and will expire: %v", p.opts.Node, err)
	}
}

// Holds reports whether this instance had the lease when it last looked; always where there is none.
func (p *Policy) Holds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds
}

// lead takes or renews the lease. An instance that gets it goes on from what the holder before it saved, and one that does not have it knows what the
// holder saved last. The lock is held.
func (p *Policy) lead() bool {
	held := p.hold()
	if held && p.holds {
		return true
	}
	p.holds = held
	saved, found, err := p.opts.Store.Load()
	if err == nil && found {
		err = saved.check()
	}
	switch {
	case err != nil:
		p.opts.Logf("node %q: what the holder of the lease saved is unreadable: %v", p.opts.Node, err)
	case found:
		p.state = saved.resume(p.cfg, p.opts.Boot, p.nowLocked())
		p.attempt = attempt{}
	}
	return held
}

// ledByAnother returns what the holder of the lease saved last, where that is another instance.
func (p *Policy) ledByAnother() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lead() {
		return 0, false
	}
	return max(1, p.state.Answer), true
}

// FileLease is a LeaseStore in one JSON file, which is locked while it changes.
type FileLease string

// Update implements LeaseStore. A file that cannot be understood counts as none.
func (f FileLease) Update(change func(Lease) Lease) (err error) {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(string(f)+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %q: %w", lock.Name(), err)
	}
	var l Lease
	b, err := os.ReadFile(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if json.Unmarshal(b, &l) != nil {
		l = Lease{}
	}
	to := change(l)
	if to == l && err == nil {
		return nil
	}
	if b, err = json.Marshal(to); err != nil {
		return err
	}
	temp := string(f) + ".new"
	if err := os.WriteFile(temp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(temp, string(f))
}
