// Package shrink makes a scenario that shows something as small as it can be while it still shows it.
//
// Contract: delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002) over the steps, then over the time
// between them, then over the nodes and the workload. Whether a candidate shows what is looked for is asked of the caller, who plays it; what the caller
// could not find out counts as not shown. A candidate that cannot be played is never asked about. The result is a scenario that was played and showed it.
//
// It plays nothing, and it knows neither invariants nor clusters.
package shrink

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"headroom/e2e/framework/scenario"
)

// Trial plays a candidate once and says whether it showed what is looked for. An error is a trial that told nothing.
type Trial func(context.Context, *scenario.Scenario) (bool, error)

// Options say how to shrink.
type Options struct {
	Trial Trial
	// Check returns a candidate ready to be played, or why it cannot be played at all.
	Check func(*scenario.Scenario) (*scenario.Scenario, error)
	// Parallel is how many trials may go on at the same time; at least 1.
	Parallel int
	// Tries is how often a candidate is played, at most, before it is given up; at least 1. What shows only sometimes needs more than one.
	Tries int
	// Confirm is how often the result is played at the end, to say how often it shows.
	Confirm int
	// Enough says that there is no time for further candidates; nil never says so. It is asked before each.
	Enough func() bool
	// Tell is told of each trial; nil is not.
	Tell func(Progress)
}

// Progress is one trial.
type Progress struct {
	// Trial counts from 1.
	Trial int
	// What was tried: "without steps 3, 4".
	What string
	// Steps is how many steps the candidate has.
	Steps int
	Shown bool
	Err   error
}

// Result is what is left.
type Result struct {
	Scenario *scenario.Scenario
	// Shown of Played are how often the result showed it when it was played at the end; both are 0 where Confirm is.
	Shown, Played int
	// Trials were played in all, Untold of them told nothing.
	Trials, Untold int
	// Cut says that Enough, or the end of the context, ended the search before everything was tried.
	Cut bool
}

// NotShownError says that the scenario does not show it any more.
type NotShownError struct {
	// Played is how often it was played, Untold how often that told nothing, Last why.
	Played, Untold int
	Last           error
}

func (e *NotShownError) Error() string {
	text := fmt.Sprintf("it did not show again when it was played %d times", e.Played)
	if e.Untold > 0 {
		text += fmt.Sprintf(", %d of which told nothing: %v", e.Untold, e.Last)
	}
	return text
}

func (e *NotShownError) Unwrap() error { return e.Last }

// Minimise shrinks a scenario that showed what is looked for when it was played before. Where it does not show it again the error is a *NotShownError.
func Minimise(ctx context.Context, s *scenario.Scenario, o Options) (Result, error) {
	m := &search{Options: o, best: s, tried: map[string]bool{}}
	if m.Parallel < 1 || m.Tries < 1 || m.Trial == nil || m.Check == nil {
		return Result{}, errors.New("shrink: want a trial, a check, and at least one try and one at a time")
	}
	ready, err := m.Check(s)
	if err != nil {
		return Result{}, fmt.Errorf("the scenario to shrink cannot be played: %w", err)
	}
	if m.best = ready; !m.again(ctx) {
		return m.result(), &NotShownError{Played: m.trials, Untold: m.untold, Last: m.last}
	}
	m.steps(ctx)
	m.durations(ctx)
	m.surroundings(ctx)
	m.singles(ctx)
	r := m.result()
	for range o.Confirm {
		shown, err := m.play(ctx, m.best, "the result again")
		if err == nil {
			r.Played++
		}
		if shown {
			r.Shown++
		}
	}
	r.Trials, r.Untold = m.trials, m.untold
	return r, nil
}

// search is the state of one shrinking.
type search struct {
	Options
	best *scenario.Scenario
	// tried are the candidates that did not show it, by their text.
	tried map[string]bool
	cut   bool

	mu             sync.Mutex
	trials, untold int
	last           error
}

func (m *search) result() Result {
	return Result{Scenario: m.best, Trials: m.trials, Untold: m.untold, Cut: m.cut}
}

// over says that no further candidate is to be tried.
func (m *search) over(ctx context.Context) bool {
	if !m.cut && (ctx.Err() != nil || m.Enough != nil && m.Enough()) {
		m.cut = true
	}
	return m.cut
}

// play plays a candidate once.
func (m *search) play(ctx context.Context, s *scenario.Scenario, what string) (bool, error) {
	shown, err := m.Trial(ctx, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trials++
	if err != nil {
		shown = false
		m.untold, m.last = m.untold+1, err
	}
	if m.Tell != nil {
		m.Tell(Progress{Trial: m.trials, What: what, Steps: len(s.Steps), Shown: shown, Err: err})
	}
	return shown, err
}

// again plays the scenario as it is until it shows, one try more than a candidate gets.
func (m *search) again(ctx context.Context) bool {
	for range m.Tries + 1 {
		if m.over(ctx) {
			return false
		}
		if shown, _ := m.play(ctx, m.best, "all of it"); shown { // play keeps the error
			return true
		}
	}
	return false
}

// candidate is a change of the best scenario so far.
type candidate struct {
	what string
	make func() *scenario.Scenario
}

// first tries candidates in order, as many side by side as may be, and makes the first that shows it the best; it returns its index, -1 when none does.
func (m *search) first(ctx context.Context, all []candidate) int {
	type item struct {
		index int
		what  string
		text  string
		ready *scenario.Scenario
	}
	var ready []item
	seen := map[string]bool{}
	for i, c := range all {
		s, err := m.Check(c.make())
		if err != nil {
			continue
		}
		text := key(s)
		if seen[text] || m.tried[text] || text == key(m.best) {
			continue
		}
		seen[text] = true
		ready = append(ready, item{i, c.what, text, s})
	}
	for len(ready) > 0 {
		if m.over(ctx) {
			return -1
		}
		batch := ready[:min(m.Parallel, len(ready))]
		ready = ready[len(batch):]
		shown := make([]bool, len(batch))
		var together sync.WaitGroup
		for n, c := range batch {
			together.Go(func() {
				for try := 0; try < m.Tries && !shown[n] && ctx.Err() == nil; try++ {
					shown[n], _ = m.play(ctx, c.ready, c.what) // play keeps the error
				}
			})
		}
		together.Wait()
		for n, c := range batch {
			if shown[n] {
				m.best = c.ready
				return c.index
			}
			if ctx.Err() == nil {
				m.tried[c.text] = true
			}
		}
	}
	return -1
}

// key tells scenarios apart.
func key(s *scenario.Scenario) string {
	text, err := s.Encode()
	if err != nil {
		return fmt.Sprintf("%p", s) // what cannot be written is like nothing else
	}
	return string(text)
}
