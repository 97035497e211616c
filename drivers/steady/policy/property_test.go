package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"headroom/e2e/framework/history"
)

// truth is what the backend's quota was from a moment on.
type truth struct {
	from   time.Time
	usable int64
	down   bool
}

// given is an answer of the policy.
type given struct {
	start, end time.Time
	value      int64
}

// TestRandomSchedules lets quotas, outages, refusals, restarts and calls come as they may, and checks what must hold of every answer.
func TestRandomSchedules(t *testing.T) {
	seeds := []int64{1, 2, 3, 4, 5, 6, 7, 8}
	if s := os.Getenv("HEADROOM_POLICY_SEED"); s != "" {
		seed, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []int64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &schedule{rig: newRig(t, quotaOf(8, 0, 0)), rng: rand.New(rand.NewPCG(uint64(seed), 7))}
				defer func() { s.policy.Close(); synctest.Wait() }()
				s.truths = []truth{{time.Now(), 8, false}}
				for range 1500 {
					s.step()
					time.Sleep(time.Duration(s.rng.Int64N(int64(4 * time.Second))))
				}
				s.check()
			})
		})
	}
}

type schedule struct {
	*rig
	rng     *rand.Rand
	truths  []truth
	answers []given
	refused []time.Time
}

func (s *schedule) step() {
	switch n := s.rng.IntN(100); {
	case n < 60:
		g := given{start: time.Now()}
		g.value = s.answer()
		g.end = time.Now()
		s.answers = append(s.answers, g)
	case n < 72:
		q := history.Quota{Limit: s.rng.Int64N(20) - 2, Foreign: s.rng.Int64N(3), Attached: s.rng.Int64N(12)}
		s.backend.set(func(b *testBackend) { q.Generation = b.quota.Generation + 1; b.quota = q })
		last := s.truths[len(s.truths)-1]
		s.truths = append(s.truths, truth{time.Now(), q.Usable(), last.down})
	case n < 80:
		down := s.rng.IntN(2) == 0
		hang := s.rng.IntN(2) == 0
		s.backend.set(func(b *testBackend) { b.err, b.hang = nil, down && hang })
		if down && !hang {
			s.down()
		}
		last := s.truths[len(s.truths)-1]
		s.truths = append(s.truths, truth{time.Now(), last.usable, down})
	case n < 83:
		s.start()
	case n < 86:
		s.policy.Refused()
		s.refused = append(s.refused, time.Now())
	case n < 88:
		s.clock.setBack(time.Duration(s.rng.Int64N(int64(time.Minute))))
		s.start() // over a restart the saved times may then lie in the future
	case n < 92:
		s.inUse = s.rng.Int64N(12)
	case n < 96:
		latency := time.Duration(s.rng.Int64N(int64(3 * time.Second)))
		s.backend.set(func(b *testBackend) { b.latency = latency })
	default:
		time.Sleep(time.Duration(s.rng.Int64N(int64(time.Minute))))
	}
}

// allowed is the highest value that an answer may have: the highest truth of the window that its age limits allow. After the last-good life
// of an outage it is what was answered before.
func (s *schedule) allowed(g given, before int64) int64 {
	age := figures.CacheAge
	if s.downWithin(g.start.Add(-figures.CacheAge-4*time.Second), g.end) {
		age = figures.LastGoodLife
	}
	most := int64(1)
	for i, tr := range s.truths {
		ended := i+1 < len(s.truths) && s.truths[i+1].from.Before(g.start.Add(-age))
		if !ended && !tr.from.After(g.end) {
			most = max(most, tr.usable)
		}
	}
	if age == figures.LastGoodLife && before > 0 {
		return max(most, before)
	}
	return most
}

func (s *schedule) downWithin(from, to time.Time) bool {
	for i, tr := range s.truths {
		ended := i+1 < len(s.truths) && s.truths[i+1].from.Before(from)
		if tr.down && !ended && !tr.from.After(to) {
			return true
		}
	}
	return false
}

func (s *schedule) check() {
	s.t.Helper()
	var before int64
	var rose time.Time
	for i, g := range s.answers {
		at := g.end.Sub(s.clock.start)
		if g.value <= 0 || g.value > math.MaxInt32 {
			s.t.Fatalf("answer %d at %s: want above 0, got %d", i, at, g.value)
		}
		if most := s.allowed(g, before); g.value > most {
			s.t.Fatalf("answer %d at %s: want at most %d, got %d", i, at, most, g.value)
		}
		if before > 0 && g.value > before {
			if g.value-before > figures.Step {
				s.t.Fatalf("answer %d at %s: want a rise of at most %d, got %d to %d", i, at, figures.Step, before, g.value)
			}
			if since := g.end.Sub(rose); since < figures.StepInterval {
				s.t.Fatalf("answer %d at %s: want rises %s apart, got %s", i, at, figures.StepInterval, since)
			}
			for _, r := range s.refused {
				if since := g.end.Sub(r); since >= 0 && since < figures.StepInterval {
					s.t.Fatalf("answer %d at %s: want no rise within %s of a refusal, got one after %s", i, at, figures.StepInterval, since)
				}
			}
			rose = g.end
		}
		before = g.value
	}
	asked := s.backend.asked
	for i := 1; i < len(asked); i++ {
		if gap := asked[i].Sub(asked[i-1]); gap < figures.MinInterval {
			s.t.Fatalf("queries %d and %d: want at least %s apart, got %s", i-1, i, figures.MinInterval, gap)
		}
	}
	if len(s.answers) < 500 || len(asked) < 300 {
		s.t.Fatalf("the schedule tested too little: %d answers, %d queries", len(s.answers), len(asked))
	}
}
