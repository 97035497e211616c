package policy

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

const leaseLife = 30 * time.Second

// instance adds a driver instance of a version and an epoch to the rig, over the same state and the same lease.
func (r *rig) instance(version, epoch int64) *Policy {
	r.t.Helper()
	lease := FileLease(filepath.Join(filepath.Dir(string(r.store)), "lease.json"))
	p, err := New(Options{
		Node: "n1", Config: r.cfg, Backend: r.backend, Store: r.store, Clock: r.clock, Boot: r.boot, Rand: rand.New(rand.NewPCG(1, 2)), Logf: r.t.Logf,
		Lease: Claim{Version: version, Epoch: epoch, Life: leaseLife, Store: lease},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Close)
	return p
}

// says wants an answer and whether it came with a query of the instance's own.
func (r *rig) says(what string, p *Policy, want int64, asks bool) {
	r.t.Helper()
	before := r.backend.queries()
	got, err := p.Answer(context.Background())
	if asked := r.backend.queries() > before; err != nil || got != want || asked != asks || p.Holds() != asks {
		r.t.Errorf("%s: want %d, asking and holding: %t; got %d, asking: %t, holding: %t, error %v", what, want, asks, got, asked, p.Holds(), err)
	}
}

// upgraded is a node on which version 1 knew 8 and version 2, which took over, knows 3.
func (r *rig) upgraded() (old, recent *Policy) {
	r.t.Helper()
	old = r.instance(1, 0)
	r.says("version 1 alone", old, 8, true)
	recent = r.instance(2, 0)
	r.up(history.Quota{Limit: 3, Generation: 2})
	time.Sleep(3 * time.Second)
	r.says("version 2", recent, 3, true)
	return old, recent
}

func TestNewerVersionSpeaks(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		old, recent := r.upgraded()
		for range 10 { // renewed, the lease goes on and on
			r.says("version 1 beside it", old, 3, false)
			time.Sleep(leaseLife / 2)
			r.says("version 2", recent, 3, true)
		}
		r.says("a version 1 that starts", r.instance(1, 0), 3, false)
		time.Sleep(3 * time.Second)
		r.says("a version 2 that starts", r.instance(2, 0), 3, true)
	})
}

// TestNothingSavedIsOne shows the answer of an instance that must not speak and finds nothing that the holder said.
func TestNothingSavedIsOne(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		recent := r.instance(2, 0)
		defer recent.Close()
		remove(t, r.store)
		r.says("version 1", r.instance(1, 0), 1, false)
	})
}

func TestLeaseEnds(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		bubble(t, quotaOf(8, 0, 0), func(r *rig) {
			old, recent := r.upgraded()
			recent.Close()
			time.Sleep(leaseLife/2 - time.Second)
			r.says("version 1 before the end", old, 3, false)
			time.Sleep(leaseLife/2 + time.Second)
			r.says("version 1 after it", old, 3, true)
		})
	})
	t.Run("released", func(t *testing.T) {
		bubble(t, quotaOf(8, 0, 0), func(r *rig) {
			old, recent := r.upgraded()
			recent.Release()
			r.says("version 1", old, 3, true)
			time.Sleep(3 * time.Second)
			r.says("version 2, which gave up", recent, 3, false)
			recent.Release() // what another holds stays
			r.says("version 1 still", old, 3, true)
		})
	})
	t.Run("another boot", func(t *testing.T) {
		bubble(t, quotaOf(8, 0, 0), func(r *rig) {
			_, recent := r.upgraded()
			recent.Close()
			r.boot = "boot-2"
			time.Sleep(2 * time.Second)
			r.says("version 1", r.instance(1, 0), 3, true)
		})
	})
}

// TestDowngradeEpoch rolls back while the newer version still runs.
func TestDowngradeEpoch(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		_, recent := r.upgraded()
		back := r.instance(1, 1)
		r.says("version 1 of epoch 1", back, 3, true)
		r.says("version 2 of epoch 0", recent, 3, false)
		back.Close()
		time.Sleep(2 * leaseLife)
		r.says("version 2 when the lease has expired", recent, 3, false)
		r.says("version 2 of epoch 1", r.instance(2, 1), 3, true)
	})
}

// TestLeaseStoreThatFails shows that an instance which cannot read the lease goes on as it was.
func TestLeaseStoreThatFails(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		p := r.instance(1, 0)
		lease := string(p.opts.Lease.Store.(FileLease))
		remove(t, FileStore(lease))
		if err := os.Mkdir(lease, 0o755); err != nil {
			t.Fatal(err)
		}
		r.says("without a lease to read", p, 8, true)
		time.Sleep(3 * time.Second)
		r.says("a new instance", r.instance(1, 0), 8, true)
	})
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		p := r.instance(1, 0)
		overwrite(t, FileStore(p.opts.Lease.Store.(FileLease)), "{")
		r.says("with a damaged lease", p, 8, true)
	})
}

func TestClaimIsChecked(t *testing.T) {
	store := FileLease(filepath.Join(t.TempDir(), "lease.json"))
	for want, c := range map[string]Claim{
		"lease life":   {Store: store},
		"a version":    {Store: store, Life: time.Second, Version: -1},
		"got 1 and -1": {Store: store, Life: time.Second, Version: 1, Epoch: -1},
	} {
		_, err := New(Options{Node: "n1", Config: figures, Lease: c})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
