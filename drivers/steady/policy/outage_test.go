package policy

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLastGoodStandsForItsLifeThenFreezes(t *testing.T) {
	cases := map[string]struct {
		attached, inUse int64
		want            int64
	}{
		"nothing attached":           {0, 0, 1},
		"backend counted more":       {4, 2, 4},
		"node sees more":             {2, 5, 5},
		"capped by the last good":    {2, 50, 8},
		"capped by it, backend says": {20, 0, 8},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, quotaOf(8, 0, c.attached), func(r *rig) {
				r.want(8)
				r.inUse = c.inUse
				r.down()
				time.Sleep(29 * time.Second)
				r.want(8)
				time.Sleep(time.Second)
				r.want(c.want)
				r.inUse = 100 // frozen: what happens later does not count
				time.Sleep(time.Hour)
				r.want(c.want)
				r.start()
				r.want(c.want)
			})
		})
	}
}

func TestOutageThatOutlivesARise(t *testing.T) {
	bubble(t, quotaOf(2, 0, 0), func(r *rig) {
		r.want(2)
		r.up(quotaOf(8, 0, 0))
		time.Sleep(12 * time.Second)
		r.want(4)
		r.down()
		r.inUse = 6
		for range 6 { // neither the last good value nor the frozen one is a ground to rise on
			time.Sleep(11 * time.Second)
			r.want(4)
		}
		r.up(quotaOf(8, 0, 6))
		time.Sleep(3 * time.Second)
		r.want(6)
		time.Sleep(10 * time.Second)
		r.want(8)
	})
}

func TestRecoveryFromFrozenGoesInSteps(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		r.want(8)
		r.down()
		time.Sleep(time.Minute)
		r.want(1)
		r.up(quotaOf(8, 0, 0))
		for _, want := range []int64{3, 5, 7, 8} {
			time.Sleep(10 * time.Second)
			r.want(want)
		}
	})
}

func TestRecoveryFromNeverKnownGoesInSteps(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		r.down()
		r.want(1)
		r.start()
		r.up(quotaOf(8, 0, 0))
		r.want(1)
		time.Sleep(10 * time.Second)
		r.want(3)
	})
}

func TestRestart(t *testing.T) {
	cases := map[string]struct {
		change func(t *testing.T, r *rig)
		want   int64
	}{
		"same boot, life not over":    {func(*testing.T, *rig) { time.Sleep(10 * time.Second) }, 8},
		"same boot, life over":        {func(*testing.T, *rig) { time.Sleep(40 * time.Second) }, 3},
		"another boot":                {func(_ *testing.T, r *rig) { r.boot = "boot-2" }, 3},
		"clock before what was saved": {func(_ *testing.T, r *rig) { r.clock.setBack(time.Hour) }, 3},
		"state is not JSON":           {func(t *testing.T, r *rig) { overwrite(t, r.store, "{") }, 1},
		"state is not plausible":      {func(t *testing.T, r *rig) { overwrite(t, r.store, `{"boot":"boot-1","known":true,"total":-4}`) }, 1},
		"state has an answer below 0": {func(t *testing.T, r *rig) { overwrite(t, r.store, `{"boot":"boot-1","answer":-1}`) }, 1},
		"state is gone":               {func(t *testing.T, r *rig) { remove(t, r.store) }, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, quotaOf(8, 0, 3), func(r *rig) {
				r.want(8)
				r.down()
				c.change(t, r)
				r.start()
				r.want(c.want)
				if c.want != 1 { // what was known stays known, whatever happens next
					time.Sleep(time.Hour)
					r.want(3)
				}
			})
		})
	}
}

func overwrite(t *testing.T, f FileStore, text string) {
	t.Helper()
	if err := os.WriteFile(string(f), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, f FileStore) {
	t.Helper()
	if err := os.Remove(string(f)); err != nil {
		t.Fatal(err)
	}
}

func TestStoreThatCannotSaveStopsNothing(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		file := filepath.Join(t.TempDir(), "file")
		overwrite(t, FileStore(file), "")
		r.store = FileStore(filepath.Join(file, "capacity.json"))
		r.start()
		r.want(8)
		r.down()
		time.Sleep(5 * time.Second)
		r.want(8)
	})
}

func TestClockSetBackIsHarmless(t *testing.T) {
	bubble(t, quotaOf(8, 0, 3), func(r *rig) {
		r.want(8)
		r.clock.setBack(time.Hour)
		r.up(quotaOf(5, 0, 3))
		time.Sleep(3 * time.Second)
		r.want(5) // asked again, not an hour later
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go r.policy.Run(ctx) // reads the clock often, so that little is lost at each jump
		r.down()
		r.clock.setBack(time.Hour)
		time.Sleep(33 * time.Second)
		r.want(3) // expired in time, not an hour later
	})
}

func TestOneQueryForConcurrentCallers(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		r.backend.set(func(b *testBackend) { b.latency = 500 * time.Millisecond })
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() { r.want(8) })
		}
		callers.Wait()
		if n := r.backend.queries(); n != 1 {
			t.Fatalf("50 concurrent callers: want 1 query, got %d", n)
		}
	})
}

func TestQueryBudget(t *testing.T) {
	modes := map[string]func(*testBackend){
		"answers":        func(*testBackend) {},
		"answers slowly": func(b *testBackend) { b.latency = 1700 * time.Millisecond },
		"fails":          func(b *testBackend) { b.err = errDown },
		"hangs":          func(b *testBackend) { b.hang = true },
	}
	for name, set := range modes {
		for _, onDemand := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, quotaOf(8, 0, 0), func(r *rig) {
					r.cfg.OnDemand = onDemand
					r.start()
					r.backend.set(set)
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
					defer cancel()
					go r.policy.Run(ctx)
					for n := 0; ctx.Err() == nil; n++ {
						if n == 100 {
							r.policy.Close()
							r.start() // an instance that is restarted at any moment keeps the budget too
							go r.policy.Run(ctx)
						}
						r.answer()
						time.Sleep(130 * time.Millisecond)
					}
					asked := r.backend.asked
					for i := 1; i < len(asked); i++ {
						if gap := asked[i].Sub(asked[i-1]); gap < figures.MinInterval {
							t.Fatalf("queries %d and %d: want at least %s apart, got %s", i-1, i, figures.MinInterval, gap)
						}
					}
					if len(asked) < 30 {
						t.Fatalf("want about a query per 1 to 8 s of 5 m, got %d in all", len(asked))
					}
				})
			})
		}
	}
}

func TestRunSpreadsQueriesOverThePeriod(t *testing.T) {
	bubble(t, quotaOf(8, 0, 0), func(r *rig) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		r.policy.Run(ctx)
		buckets := make([]int, 10)
		for _, at := range r.backend.asked {
			buckets[int(at.Sub(r.clock.start)/time.Second)%10]++
		}
		for i, n := range buckets {
			if 2*n > len(r.backend.asked) {
				t.Fatalf("second %d of the period: want at most half of %d queries, got %d", i, len(r.backend.asked), n)
			}
		}
		if n := len(r.backend.asked); n < 300 {
			t.Fatalf("want a query at least every cache age, got %d in 10 m", n)
		}
	})
}

func TestAnswerIsNeverOlderThanTheCacheAge(t *testing.T) {
	bubble(t, quotaOf(9, 0, 0), func(r *rig) {
		r.want(9)
		r.up(quotaOf(4, 0, 0))
		for range 41 { // a little more than the cache age
			time.Sleep(50 * time.Millisecond)
			if r.answer() == 4 {
				return
			}
		}
		t.Fatalf("answer %s after the quota fell: want 4", figures.CacheAge)
	})
}

func TestHangingBackend(t *testing.T) {
	bubble(t, quotaOf(9, 0, 0), func(r *rig) {
		r.want(9)
		r.backend.set(func(b *testBackend) { b.hang = true })
		time.Sleep(5 * time.Second)
		begin := time.Now()
		r.want(9)
		if took := time.Since(begin); took > 4*time.Second {
			t.Fatalf("answer with a backend that hangs: want at most the query timeout, got %s", took)
		}
		if !r.policy.Failing() {
			t.Fatal("want the policy to know that the backend fails")
		}
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin = time.Now()
		got, err := r.policy.Answer(ctx) // registration by a client in a hurry must not fail
		if err != nil || got != 9 || time.Since(begin) != 500*time.Millisecond {
			t.Fatalf("want 9 after half of the caller's second, got %d, %v after %s", got, err, time.Since(begin))
		}
	})
}

func TestNoRiseWhileTheBackendIsSilent(t *testing.T) {
	bubble(t, quotaOf(2, 0, 0), func(r *rig) {
		r.want(2)
		r.up(quotaOf(8, 0, 0))
		time.Sleep(12 * time.Second)
		r.want(4)
		r.backend.set(func(b *testBackend) { b.hang = true })
		time.Sleep(12 * time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if got, err := r.policy.Answer(ctx); err != nil || got != 4 {
			t.Fatalf("want 4 while a query hangs, got %d, %v", got, err)
		}
	})
}

func TestCallerThatGivesUpTakesNothingFromOthers(t *testing.T) {
	bubble(t, quotaOf(9, 0, 0), func(r *rig) {
		r.backend.set(func(b *testBackend) { b.latency = time.Second })
		ctx, cancel := context.WithCancel(context.Background())
		first := make(chan error, 1)
		go func() { _, err := r.policy.Answer(ctx); first <- err }()
		synctest.Wait()
		cancel()
		if err := <-first; err == nil {
			t.Fatal("want the error of a context that ended")
		}
		r.want(9)
		if n := r.backend.queries(); n != 1 {
			t.Fatalf("want the query of the caller that left to be used, got %d queries", n)
		}
	})
}

func TestMachineClock(t *testing.T) {
	a := Machine{}.Now()
	if b := (Machine{}).Now(); a <= 0 || b < a {
		t.Fatalf("want time since boot, got %s then %s", a, b)
	}
	if boot, err := Boot(); err != nil || boot == "" {
		t.Fatalf("boot: %q, %v", boot, err)
	}
}
