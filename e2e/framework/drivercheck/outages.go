package drivercheck

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/report"
)

// outages takes the service away that the limit comes from, and has it answer nonsense.
func (s *session) outages(ctx context.Context) error {
	if s.lever == nil {
		return nil
	}
	if err := s.gone(ctx); err != nil {
		return err
	}
	if err := s.throttle(ctx); err != nil {
		return err
	}
	if err := s.spell(ctx, huge, caseHuge, math.MaxInt32); err != nil {
		return err
	}
	return s.spell(ctx, garbage, caseGarbage, math.MaxInt32)
}

// gone is an outage: answers, an attach, and a restart.
func (s *session) gone(ctx context.Context) error {
	most := s.last()
	if s.raised != (limits{}) {
		most = max(most, s.raised.limit-s.raised.foreign)
	}
	err := s.lever.fail(ctx, s.nodeID, outage)
	if errors.Is(err, errCannot) {
		for _, c := range []caseID{caseOutage, caseOutageCount, caseOutageRestart, caseOutageCode, caseAttachOutages} {
			s.rec.skipped(c, "%v", err)
		}
		return nil
	} else if err != nil {
		return err
	}
	s.say("quota service gone")
	if err := s.watch(ctx, caseOutage, math.MaxInt32); err != nil {
		return err
	}
	if s.rec.has(caseOutage) == report.Held {
		if n := s.last(); n > most {
			s.rec.violated(caseOutageCount, "want at most %d, got %d", most, n)
		} else {
			s.rec.held(caseOutageCount, "%d of %d", n, most)
		}
	} else {
		s.rec.inconclusive(caseOutageCount, "the answer was no limit")
	}
	if err := s.attachInOutage(ctx); err != nil {
		return err
	}
	if err := s.restartInOutage(ctx); err != nil {
		return err
	}
	return s.lever.heal(ctx, s.nodeID)
}

// spare is a volume that is not attached, "" for none.
func (s *session) spare() string {
	for _, v := range s.volumes {
		if !s.attached[v] {
			return v
		}
	}
	return ""
}

func (s *session) attachInOutage(ctx context.Context) error {
	volume := s.spare()
	if volume == "" {
		s.rec.skipped(caseOutageCode, "no volume is left to attach")
		s.rec.skipped(caseAttachOutages, "no volume is left to attach")
		return nil
	}
	st, err := s.publish(ctx, s.request(volume))
	if err != nil {
		return err
	}
	_, counted := s.lever.(*backendLever)
	switch {
	case st.Code() == codes.OK && counted:
		s.rec.violated(caseAttachOutages, "want the attach of a volume to fail when the backend that attaches is gone, got OK")
		s.rec.inconclusive(caseOutageCode, "the attach did not fail")
	case st.Code() == codes.OK:
		s.rec.held(caseAttachOutages, "attached without it")
		s.rec.held(caseOutageCode, "attached without it")
	case st.Code() == codes.ResourceExhausted:
		s.rec.held(caseAttachOutages, "%s", code(st.Code()))
		s.rec.violated(caseOutageCode, "want any other code, as nobody knows whether the node is full, got %s%s", code(st.Code()), words(st))
	default:
		s.rec.held(caseAttachOutages, "%s", code(st.Code()))
		s.rec.held(caseOutageCode, "%s", code(st.Code()))
	}
	return nil
}

func (s *session) restartInOutage(ctx context.Context) error {
	err := s.restart(ctx)
	if errors.Is(err, errCannot) {
		s.rec.skipped(caseOutageRestart, "%v", err)
		return nil
	} else if err != nil {
		return err
	}
	_, got, err := s.ask(ctx)
	if err != nil {
		return err
	}
	s.bounded(caseOutageRestart, got, math.MaxInt32)
	return nil
}

// bounded judges one answer.
func (s *session) bounded(c caseID, got codes.Code, most int64) bool {
	switch n := s.last(); {
	case got != codes.OK:
		s.rec.violated(c, "want a limit from 1 to %d, got code %s; at registration that leaves the node without a limit", most, code(got))
	case n < 1 || n > most:
		s.rec.violated(c, "want a limit from 1 to %d, got %d", most, n)
	default:
		s.rec.held(c, "%d", n)
		return true
	}
	return false
}

// throttle refuses attaches because there are too many.
func (s *session) throttle(ctx context.Context) error {
	volume := s.spare()
	if volume == "" {
		s.rec.skipped(caseThrottled, "no volume is left to attach")
		return nil
	}
	err := s.lever.fail(ctx, s.nodeID, throttled)
	if errors.Is(err, errCannot) {
		s.rec.skipped(caseThrottled, "%v", err)
		return nil
	} else if err != nil {
		return err
	}
	st, err := s.publish(ctx, s.request(volume))
	if err != nil {
		return err
	}
	switch st.Code() {
	case codes.OK:
		s.rec.inconclusive(caseThrottled, "the attach did not fail")
	case codes.ResourceExhausted:
		s.rec.violated(caseThrottled, "want any other code, as the node has room, got %s%s", code(st.Code()), words(st))
	default:
		s.rec.held(caseThrottled, "%s", code(st.Code()))
	}
	return s.lever.heal(ctx, s.nodeID)
}

// spell has the service fail in one way until the driver has met it, and judges the answers.
func (s *session) spell(ctx context.Context, f fault, c caseID, most int64) error {
	if s.lever == nil {
		return nil
	}
	err := s.lever.fail(ctx, s.nodeID, f)
	if errors.Is(err, errCannot) {
		s.rec.skipped(c, "%v", err)
		return nil
	} else if err != nil {
		return err
	}
	s.say("quota service: %s", f)
	if err := s.watch(ctx, c, most); err != nil {
		return err
	}
	return s.lever.heal(ctx, s.nodeID)
}

// watch asks until the driver must have met what its service does now: it has asked it twice, or a cache age is over.
func (s *session) watch(ctx context.Context, c caseID, most int64) error {
	begun := s.since()
	before, err := s.lever.look(ctx, s.nodeID)
	counted := err == nil
	if err != nil && !errors.Is(err, errCannot) {
		return err
	}
	for {
		met := s.since() >= begun+s.cacheAge()
		if counted && !met {
			now, err := s.lever.look(ctx, s.nodeID)
			if err != nil {
				return err
			}
			met = now.queries >= before.queries+2
		}
		if met { // what is answered to a call that begins now
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		_, got, err := s.ask(ctx)
		if err != nil {
			return err
		}
		if !s.bounded(c, got, most) || met {
			return nil
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// again restarts the driver while all is well.
func (s *session) again(ctx context.Context) error {
	before := s.last()
	err := s.restart(ctx)
	if errors.Is(err, errCannot) {
		s.rec.skipped(caseRestart, "%v", err)
		s.rec.skipped(caseSameIDRestart, "%v", err)
		return nil
	} else if err != nil {
		return err
	}
	info, got, err := s.ask(ctx)
	if err != nil {
		return err
	}
	if got != codes.OK {
		s.rec.violated(caseRestart, "NodeGetInfo after a restart: want an answer, got %s", code(got))
		s.rec.inconclusive(caseSameIDRestart, "NodeGetInfo failed")
		return nil
	}
	s.same(caseSameIDRestart, info)
	most := before
	if s.raised != (limits{}) {
		most = max(most, s.raised.limit-s.raised.foreign)
	}
	if n := s.last(); n < before || n > most {
		s.rec.violated(caseRestart, "want %d, as before the restart, got %d", before, n)
	} else {
		s.rec.held(caseRestart, "%d", n)
	}
	return nil
}
