package drivercheck

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/report"
)

const (
	// pollEvery is the time between two questions while the answer to a change is awaited.
	pollEvery = 200 * time.Millisecond
	// rises is by how much the limit is raised.
	rises = 6
)

// limits are what was set last.
type limits struct{ limit, foreign int64 }

// change lets the limit fall, and foreign attachments come, both at once: what the answer is then tells which of them the driver missed.
func (s *session) change(ctx context.Context) error {
	if s.lever == nil {
		return nil
	}
	before, space, now, err := s.lower(ctx)
	if errors.Is(err, errCannot) {
		for _, c := range []caseID{caseUnseen, caseFall, caseForeign, caseOlder, caseRise, caseSteps, caseTotal} {
			s.rec.skipped(c, "%v", err)
		}
		return nil
	} else if err != nil {
		return err
	}
	changed := s.since()
	usable := now.limit - now.foreign
	if err := s.unseen(ctx); err != nil {
		return err
	}
	// What the driver keeps for itself of the limit it may keep of the lower one too.
	least := min(before, usable-(space-before))
	got, err := s.follow(ctx, changed, func(n int64) bool { return n >= 1 && n <= usable })
	if err != nil {
		return err
	}
	within := fmt.Sprintf("%s after the change", s.cacheAge())
	switch {
	case got < 1:
		s.rec.violated(caseOutage, "want a limit after a change, got %d", got)
	case got > usable && got != before && s.lever.foreigns() && got <= now.limit:
		s.rec.violated(caseForeign, "want at most %d (limit %d, %d of them foreign) %s, got %d", usable, now.limit, now.foreign, within, got)
		s.rec.held(caseFall, "%d became %d", before, got)
		s.rec.inconclusive(caseTotal, "the answer is too high for it to show")
	case got > usable:
		s.rec.violated(caseFall, "want at most %d %s, got %d%s", usable, within, got, s.undeclared())
		s.rec.inconclusive(caseForeign, "the answer did not follow")
		s.rec.inconclusive(caseTotal, "the answer did not follow")
	default:
		s.rec.held(caseFall, "%d became %d", before, got)
		if s.lever.foreigns() {
			s.rec.held(caseForeign, "%d of limit %d with %d foreign", got, now.limit, now.foreign)
		} else {
			s.rec.skipped(caseForeign, "nobody can make foreign attachments: the definition has no causes.foreign")
		}
		s.total(got, least)
	}
	if err := s.older(ctx, got); err != nil {
		return err
	}
	s.raised = limits{now.limit + rises, now.foreign}
	if err := s.set(ctx, s.raised); err != nil {
		return err
	}
	s.raisedFrom = got
	return nil
}

// total judges that attached volumes are not subtracted.
func (s *session) total(got, least int64) {
	switch {
	case len(s.attached) == 0:
		s.rec.skipped(caseTotal, "no volumes are attached")
	case got < least:
		s.rec.violated(caseTotal, "want %d or more with %d volumes attached, got %d", least, len(s.attached), got)
	default:
		s.rec.held(caseTotal, "%d with %s attached", got, report.Plural(len(s.attached), "volume"))
	}
}

// undeclared says why the bound is what it is, where the driver declares none.
func (s *session) undeclared() string {
	if _, known := s.figures(); known {
		return ""
	}
	return " (no cache age is known: give a definition with --driver)"
}

// lower detaches two volumes and makes the limit just what is attached.
func (s *session) lower(ctx context.Context) (before, space int64, now limits, err error) {
	before = s.last()
	r, err := s.lever.look(ctx, s.nodeID)
	if errors.Is(err, errCannot) {
		r = room{limit: before}
		if l, ok := s.lever.(*causeLever); ok {
			l.note(before)
		}
		if before < leastRoom {
			return 0, 0, now, cannot("want a limit of %d or more to lower it, got %d", leastRoom, before)
		}
	} else if err != nil {
		return 0, 0, now, err
	}
	freed := 0
	for _, volume := range s.volumes {
		if freed < 2 && s.attached[volume] && len(s.attached) > 1 {
			if _, err := s.unpublish(ctx, volume, s.nodeID); err != nil {
				return 0, 0, now, err
			}
			freed++
		}
	}
	now = limits{r.limit - 1, r.foreign + 1}
	if !s.lever.foreigns() {
		now = limits{r.limit - 2, r.foreign}
	}
	return before, r.usable(), now, s.set(ctx, now)
}

// set changes limit and foreign attachments.
func (s *session) set(ctx context.Context, to limits) error {
	s.say("limit %d, foreign %d", to.limit, to.foreign)
	return s.lever.set(ctx, s.nodeID, to.limit, to.foreign)
}

// unseen attaches beyond a limit that the driver has not reported yet.
func (s *session) unseen(ctx context.Context) error {
	volume := s.spare()
	if volume == "" || s.rec.has(caseOver) != report.Held {
		s.rec.skipped(caseUnseen, "the node is not full")
		return nil
	}
	if s.rec.has(caseRoom) == report.Violated {
		s.rec.inconclusive(caseUnseen, "the driver keeps what it detaches: what was detached may be attached still")
		return nil
	}
	st, err := s.publish(ctx, s.request(volume))
	if err != nil {
		return err
	}
	if st.Code() == codes.OK {
		s.rec.violated(caseUnseen, "want an attach beyond the new limit refused, got OK")
		_, err := s.unpublish(ctx, volume, s.nodeID)
		return err
	}
	s.rec.held(caseUnseen, "%s", code(st.Code()))
	s.want(caseFull, codes.ResourceExhausted, st)
	return nil
}

// follow asks until the answer is right, or a call that began a cache age after the change was answered.
func (s *session) follow(ctx context.Context, changed time.Duration, right func(int64) bool) (int64, error) {
	for {
		late := s.since() >= changed+s.cacheAge()
		_, got, err := s.ask(ctx)
		if err != nil {
			return 0, err
		}
		if got != codes.OK {
			s.rec.violated(caseOutage, "NodeGetInfo: want an answer, got %s", code(got))
			return 0, nil
		}
		if late || right(s.last()) {
			return s.last(), nil
		}
		if err := pause(ctx, pollEvery); err != nil {
			return 0, err
		}
	}
}

// older asks on after a change was answered.
func (s *session) older(ctx context.Context, got int64) error {
	for range repeats {
		if _, c, err := s.ask(ctx); err != nil || c != codes.OK {
			return err
		}
		if n := s.last(); n > got {
			s.rec.violated(caseOlder, "want %d or less again, as nothing changed, got %d", got, n)
			return nil
		}
	}
	s.rec.held(caseOlder, "%d, %s", got, report.Plural(repeats, "time"))
	return nil
}

// rise waits for the limit that was raised to show.
func (s *session) rise(ctx context.Context) error {
	if s.lever == nil || s.raised == (limits{}) {
		return nil
	}
	if s.rec.has(caseFall) == report.Violated {
		s.rec.inconclusive(caseRise, "the answer did not follow the fall")
		s.steps()
		return nil
	}
	f, _ := s.figures()
	// A fall and a refused attach may each hold a rise back for an interval.
	bound := s.cacheAge() + 2*f.StepInterval + 2*time.Second
	if bound > s.Wait {
		s.rec.skipped(caseRise, "it may take %s by the driver's figures, and --wait is %s", bound, s.Wait)
		s.steps()
		return nil
	}
	usable := s.raised.limit - s.raised.foreign
	for begun := s.since(); ; {
		late := s.since() >= begun+bound
		if _, c, err := s.ask(ctx); err != nil {
			return err
		} else if c != codes.OK {
			s.rec.violated(caseRise, "NodeGetInfo: want an answer, got %s", c)
			return nil
		}
		n := s.last()
		switch {
		case n > usable:
			s.rec.violated(caseForeign, "want at most %d, got %d", usable, n)
			return nil
		case n > s.raisedFrom:
			s.rec.held(caseRise, "%d became %d", s.raisedFrom, n)
			s.steps()
			return nil
		case late:
			s.rec.violated(caseRise, "want more than %d within %s of the time when nothing stood in the way, got %d", s.raisedFrom, bound, n)
			s.steps()
			return nil
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// steps judges all rises that were answered.
func (s *session) steps() {
	f, known := s.figures()
	if !known || f.Step == 0 {
		s.rec.unfit("the driver declares no steps", caseSteps)
		return
	}
	if s.rec.has(caseOlder) == report.Violated {
		s.rec.inconclusive(caseSteps, "an older answer came again, which looks like a rise")
		return
	}
	if why := tooSteep(s.answers, f.Step, f.StepInterval); why != "" {
		s.rec.violated(caseSteps, "%s", why)
		return
	}
	if s.rec.has(caseRise) != report.Held {
		s.rec.inconclusive(caseSteps, "no rise was seen")
		return
	}
	s.rec.held(caseSteps, "by %d at most in %s", f.Step, f.StepInterval)
}

// tooSteep says which rise among answers was larger than a step or came sooner than an interval after another, "" for none. When a rise happened is known
// no better than between two answers, so only what is sure counts.
func tooSteep(answers []answer, step int64, interval time.Duration) string {
	answers = slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return a.count < 1 }) // no limit is no step
	var before *answer                                                                             // the answer before the last rise
	for i := 1; i < len(answers); i++ {
		from, to := answers[i-1], answers[i]
		if to.count <= from.count {
			continue
		}
		// So many steps take at least the intervals between them.
		if rose := to.count - from.count; rose > step && to.came-from.asked < interval*time.Duration((rose-1)/step) {
			return fmt.Sprintf("want a rise by %d at most, got %d to %d within %s", step, from.count, to.count, (to.came - from.asked).Round(time.Millisecond))
		}
		if before != nil && to.came-before.asked < interval {
			return fmt.Sprintf("want %s between rises, got two within %s", interval, (to.came - before.asked).Round(time.Millisecond))
		}
		before = &answers[i-1]
	}
	return ""
}

// below has the backend answer a limit of -1, which leaves no room; last, because what it does to the answer is a fall.
func (s *session) below(ctx context.Context) error {
	return s.spell(ctx, negative, caseNegative, math.MaxInt32)
}

// figure judges what is counted over the whole check.
func (s *session) figure(ctx context.Context) error {
	f, known := s.figures()
	if s.lever == nil {
		return nil
	}
	if !known {
		s.rec.skipped(caseBudget, "no figures are known: give a definition with --driver")
		return nil
	}
	r, err := s.lever.look(ctx, s.nodeID)
	if errors.Is(err, errCannot) {
		s.rec.skipped(caseBudget, "%v", err)
		return nil
	} else if err != nil {
		return err
	}
	took := s.since()
	made := r.queries - s.queriesBefore
	// A process that starts knows nothing of its predecessor's queries, and one may lie on each end of the time.
	allowed := int64(took/f.MinInterval) + 2 + int64(s.restarts)
	if made > allowed {
		s.rec.violated(caseBudget, "want at most %d queries in %s, one in %s, got %d", allowed, took.Round(time.Millisecond), f.MinInterval, made)
		return nil
	}
	s.rec.held(caseBudget, "%s in %s, %d allowed", report.Plural(int(made), "query"), took.Round(time.Millisecond), allowed)
	return nil
}
