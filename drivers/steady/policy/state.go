package policy

import (
	"fmt"
	"math"
	"time"

	"headroom/e2e/framework/history"
)

// State is all that the policy remembers, and what it saves. Times are readings of its clock.
type State struct {
	// Boot is the boot that the times count from.
	Boot string `json:"boot"`
	// Known is true once the backend told a quota.
	Known bool `json:"known"`
	// Total is the last good value, at least 1.
	Total int64 `json:"total"`
	// Attached is what the backend counted as attached by Kubernetes along with Total.
	Attached int64 `json:"attached"`
	// Generation is the backend's count of changes as of Total.
	Generation int64 `json:"generation"`
	// AskedAt is when the query that brought Total was started.
	AskedAt time.Duration `json:"askedAt"`
	// Frozen is what is reported since the last good value expired; 0 means that it has not.
	Frozen int64 `json:"frozen"`
	// Answer is what was answered last; 0 means nothing yet.
	Answer int64 `json:"answer"`
	// ChangedAt is when Answer rose or fell last.
	ChangedAt time.Duration `json:"changedAt"`
	// RefusedUntil is when the last refused attach stops holding back rises.
	RefusedUntil time.Duration `json:"refusedUntil"`
	// FullUntil is when having seen the node full stops holding back rises above what is attached.
	FullUntil time.Duration `json:"fullUntil"`
	// Fresh is true while the last query was answered. It does not outlive the process.
	Fresh bool `json:"-"`
}

// check finds a saved state that this package did not write.
func (s State) check() error {
	switch {
	case s.Known && (s.Total < 1 || s.Total > math.MaxInt32):
		return fmt.Errorf("total %d, want 1 to %d", s.Total, math.MaxInt32)
	case s.Answer < 0 || s.Answer > math.MaxInt32:
		return fmt.Errorf("answer %d, want 0 to %d", s.Answer, math.MaxInt32)
	case s.Frozen < 0 || s.Frozen > math.MaxInt32:
		return fmt.Errorf("frozen %d, want 0 to %d", s.Frozen, math.MaxInt32)
	case s.Attached < 0:
		return fmt.Errorf("attached %d, want 0 or more", s.Attached)
	}
	return nil
}

// resume makes a saved state usable at now. Where its times mean nothing here, its value counts as expired and the steps begin anew.
func (s State) resume(cfg Config, boot string, now time.Duration) State {
	if s.Boot != boot || s.AskedAt > now || s.ChangedAt > now {
		s.AskedAt, s.ChangedAt = now-cfg.LastGoodLife, now
		s.RefusedUntil, s.FullUntil = 0, 0
	}
	s.Boot, s.Fresh = boot, false
	return s
}

// outdated says why an answer of the backend is older than the last good one: a replica that lags gave it. Once the last good value has expired,
// a backend that counts anew is believed again.
func (s *State) outdated(q history.Quota) error {
	if s.Known && s.Frozen == 0 && q.Generation < s.Generation {
		return fmt.Errorf("stale quota: generation %d, want %d or later", q.Generation, s.Generation)
	}
	return nil
}

// fresh takes in an answer of the backend to a query that ran from start to end.
func (s *State) fresh(cfg Config, q history.Quota, start, end time.Duration) {
	s.Known, s.Fresh, s.Frozen = true, true, 0
	s.Total, s.Attached, s.Generation, s.AskedAt = 1, q.Attached, q.Generation, start
	if q.Limit > q.Foreign { // compared first: the difference of a very negative limit would overflow
		s.Total = q.Limit - q.Foreign
	}
	if q.Limit <= q.Foreign || q.Attached >= s.Total {
		// Full now, so the controller, another process, may just have had an attach refused.
		s.FullUntil = end + cfg.StepInterval
	}
}

// failed takes in that a query had no answer.
func (s *State) failed(cfg Config, now time.Duration, attachments func() int64) {
	s.Fresh = false
	s.expire(cfg, now, attachments)
}

// expire freezes the value once the last good one has reached its age. What the backend counted last and what the node sees in use are both
// too low at times (attached since, or not yet mounted), so the higher of the two is the better count; the last good value caps it.
func (s *State) expire(cfg Config, now time.Duration, attachments func() int64) {
	if !s.Known || s.Frozen != 0 || now-s.AskedAt < cfg.LastGoodLife {
		return
	}
	s.Frozen = min(max(1, s.Attached, attachments()), s.Total)
}

// target is what would be answered if there were no steps.
func (s *State) target() int64 {
	switch {
	case !s.Known:
		return 1
	case s.Frozen != 0:
		return s.Frozen
	}
	return s.Total
}

// settle moves the answer to where it may be at now and returns it.
func (s *State) settle(cfg Config, now time.Duration, attachments func() int64) int64 {
	s.expire(cfg, now, attachments)
	target := s.target()
	switch {
	case s.Answer == 0 || target < s.Answer:
		s.Answer, s.ChangedAt = target, now
	case target > s.Answer && s.untilRise(cfg, now) == 0:
		if rise := s.ceiling(cfg, now) - s.Answer; cfg.Step > 0 {
			s.Answer += min(cfg.Step, rise)
		} else {
			s.Answer += rise
		}
		s.ChangedAt = now
	}
	return s.Answer
}

// ceiling is how far a rise may go at now. A rise up to what is attached admits nothing new, so it need not wait for a full node to empty.
func (s *State) ceiling(cfg Config, now time.Duration) int64 {
	if cfg.Step > 0 && now < s.FullUntil {
		return min(s.target(), s.Attached)
	}
	return s.target()
}

// untilRise is how long the next rise is away: 0 when it may happen now, far away when time alone does not bring it.
func (s *State) untilRise(cfg Config, now time.Duration) time.Duration {
	const never = time.Duration(math.MaxInt64)
	switch {
	case s.Answer == 0 || !s.Fresh || s.Frozen != 0 || s.target() <= s.Answer:
		return never
	case cfg.Step == 0:
		return 0
	}
	at := max(s.ChangedAt+cfg.StepInterval, s.RefusedUntil)
	if s.ceiling(cfg, now) <= s.Answer {
		at = max(at, s.FullUntil)
	}
	return max(0, at-now)
}
