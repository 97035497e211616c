package observe

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

// Audit converts a kube-apiserver audit log to the source "audit" below eventsDir: an invoke and a completion for each write to storage.k8s.io.
//
// The log is JSON lines with the stages RequestReceived and ResponseComplete (or Panic) and no rotation (--audit-log-maxsize=0); its policy must
// be RequestResponse for these writes. Completions: 2xx is ok, 4xx fail, everything else unknown. A request without a completion (the server was
// killed) is unknown at the end of the log. Reads, other groups and dry runs are left out. Objects of the request are known to the completion's
// line only, so the invoke is filled from there.
//
// pairs (ClockPairs) turn the log's wall times into At. A line that is no audit event is a gap that names file and line; so is a torn last line.
// The file is written anew and whole: converting twice gives the same events once.
func Audit(auditLog, eventsDir, run string, pairs []ClockPair) error {
	c, err := newClock(pairs)
	if err != nil {
		return fmt.Errorf("convert audit log %s: %w", auditLog, err)
	}
	in, err := os.Open(auditLog)
	if err != nil {
		return fmt.Errorf("convert audit log: %w", err)
	}
	defer in.Close()
	a := auditor{file: auditLog, clock: c, last: c.segments[0][0].at, ops: map[string]*auditOp{}, nodes: map[string]string{}}
	if err := a.read(in); err != nil {
		return fmt.Errorf("convert audit log %s: %w", auditLog, err)
	}
	if err := writeSource(eventsDir, run, history.SourceAudit, a.events()); err != nil {
		return fmt.Errorf("convert audit log %s: %w", auditLog, err)
	}
	return nil
}

// auditor collects the operations of one log.
type auditor struct {
	file  string
	clock *clock
	last  time.Duration // the stamp of the last line, which tells where in the run the reading is
	end   time.Duration // the latest stamp of all
	gaps  []history.Event
	order []*auditOp
	ops   map[string]*auditOp // by audit id
	nodes map[string]string   // VolumeAttachment name to its spec.nodeName, for answers that do not carry the object
}

// auditOp is one request: what its lines say, put together.
type auditOp struct {
	line         auditLine // the completion's, or the receipt's as long as there is no other
	begun, ended time.Duration
	done         bool
}

func (a *auditor) read(r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	for number := 1; ; number++ {
		b, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if text := bytes.TrimSpace(b); len(text) > 0 {
			a.take(text, number, err != nil)
		}
		if err != nil {
			return nil
		}
	}
}

// take reads one line. torn says that the line has no end, which only the last can.
func (a *auditor) take(text []byte, number int, torn bool) {
	line, err := parseAuditLine(text)
	if err != nil {
		reason := fmt.Sprintf("%s:%d: %v", a.file, number, err)
		if torn {
			reason = fmt.Sprintf("%s:%d: the last line is torn off", a.file, number)
		}
		e := gap(reason)
		e.At = a.last
		a.gaps = append(a.gaps, e)
		return
	}
	stamp := a.clock.at(line.StageTimestamp, a.last)
	begun := min(a.clock.at(line.RequestReceivedTimestamp, stamp), stamp)
	a.last = stamp
	a.end = max(a.end, stamp)
	if !line.storageWrite() {
		return
	}
	op := a.ops[line.AuditID]
	if op == nil {
		op = &auditOp{line: line, begun: begun}
		a.ops[line.AuditID] = op
		a.order = append(a.order, op)
	}
	if line.completion() && !op.done { // a second completion of the same request says nothing new
		op.line, op.ended, op.done = line, max(stamp, op.begun), true
	}
}

// events returns everything in the order of stamps.
func (a *auditor) events() []history.Event {
	all := slices.Clone(a.gaps)
	var open []history.Event // requests without a completion
	for _, op := range a.order {
		body := op.line.body()
		e := history.Event{At: op.begun, Phase: history.Invoke, Op: op.line.AuditID, Key: body.Resource + "/" + body.Name, Node: a.node(op.line, body)}
		body.Drivers = op.line.request().drivers(body.Resource)
		e.Body = history.Encode(body)
		all = append(all, e)
		body.Drivers = nil
		if !op.done {
			e.At, e.Phase, e.Body = a.end, history.Unknown, history.Encode(body)
			open = append(open, e)
			continue
		}
		e.At, e.Phase, body.Status = op.ended, op.line.phase(), op.line.status()
		if e.Phase == history.OK {
			answer := op.line.response()
			e.Rev, body.Drivers = answer.revision(), answer.drivers(body.Resource)
		}
		e.Body = history.Encode(body)
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(x, y history.Event) int { return cmp.Compare(x.At, y.At) })
	return append(all, open...)
}

// node returns the node that the object belongs to.
func (a *auditor) node(line auditLine, body history.Audit) string {
	switch body.Resource {
	case "csinodes":
		return body.Name
	case "volumeattachments":
		name := cmp.Or(line.response().Spec.NodeName, line.request().Spec.NodeName, a.nodes[body.Name])
		a.nodes[body.Name] = name
		return name
	}
	return ""
}
