package plan

import (
	"math/rand/v2"
	"time"
)

// source draws the random choices. Only Uint64 of the generator is used, whose sequence is specified; how math/rand/v2 makes smaller numbers of it
// is not.
type source struct{ *rand.PCG }

// stream keeps plans apart from what else is drawn from the seed.
const stream = 0x706c616e // "plan"

func newSource(seed int64) source { return source{rand.NewPCG(uint64(seed), stream)} }

// below draws from 0 to n-1. That low numbers are more likely by n in 2^64 matters to nobody.
func (s source) below(n uint64) uint64 { return s.Uint64() % n }

// between draws from least to most, both included.
func (s source) between(least, most int) int { return least + int(s.below(uint64(most-least+1))) }

// seconds draws whole seconds.
func (s source) seconds(least, most int) time.Duration {
	return time.Duration(s.between(least, most)) * time.Second
}

// one draws one of several.
func one[T any](s source, of ...T) T { return of[s.below(uint64(len(of)))] }
