package run

import (
	"headroom/e2e/framework/history"
)

// NotBegun records that those of the given requirements that no process has begun are open, for the reason given: a run that stops early says what it
// left out. It is for the process that made the run, once the spec processes have ended.
func (s *Session) NotBegun(all []Requirement, why string) error {
	ids := make([]string, len(all))
	for i, r := range all {
		ids[i] = r.ID
	}
	left, _, err := s.unbegun(ids)
	if err != nil {
		return err
	}
	for _, r := range all {
		for _, id := range left {
			if id == r.ID {
				s.specs.Write(history.Event{Phase: history.Unknown, Op: r.ID, Key: r.ID, Body: history.Encode(history.Spec{
					Title: r.Claim, Boundary: history.Harness, Outcome: "Inconclusive", Message: "not begun " + why,
				})})
			}
		}
	}
	return nil
}
