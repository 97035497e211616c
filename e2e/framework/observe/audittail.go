package observe

import (
	"bytes"
	"fmt"
	"time"

	"headroom/e2e/framework/history"
)

// AuditTail reads the audit log of a run that goes on: the answers of writes to storage.k8s.io, as Audit converts them at the end.
type AuditTail struct {
	log, eventsDir string
	tail           history.Tail
	early          []history.Event
	seq            uint64
}

// NewAuditTail reads a log from its beginning; eventsDir has the run's heartbeats, which tell its clock.
func NewAuditTail(log, eventsDir string) *AuditTail {
	return &AuditTail{log: log, eventsDir: eventsDir}
}

// Read returns the answers up to a time of CLOCK_MONOTONIC that were not returned before, in order. Lines that are no audit events are left out: Audit
// reports them.
func (t *AuditTail) Read(upTo time.Duration) ([]history.Event, error) {
	pairs, err := ClockPairs(t.eventsDir)
	if err != nil {
		return nil, err
	}
	c, err := newClock(pairs)
	if err != nil {
		return nil, fmt.Errorf("read audit log %s: %w", t.log, err)
	}
	lines, err := t.tail.Next(t.log)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	a := auditor{file: t.log, clock: c, last: pairs[len(pairs)-1].At, ops: map[string]*auditOp{}, nodes: map[string]string{}}
	for i, line := range lines {
		a.take(bytes.TrimSpace(line), i+1, false)
	}
	for _, e := range a.events() {
		if e.Phase == history.OK || e.Phase == history.Fail {
			t.seq++
			e.Source, e.Seq = history.SourceAudit, t.seq
			t.early = append(t.early, e)
		}
	}
	var due, rest []history.Event
	for _, e := range history.Ordered(t.early) {
		if e.At <= upTo {
			due = append(due, e)
		} else {
			rest = append(rest, e)
		}
	}
	t.early = rest
	return due, nil
}
