// Package history is the append-only record of a run and the only thing that verdicts are made from.
//
// Contract: every writer (a process, or a part of one) owns one file, events/<source>.jsonl, and numbers its own events. Writers never
// coordinate: all stamp CLOCK_MONOTONIC, which is one clock for all processes of a machine, namespaces included. Merge joins the files into
// one history behind a header, and turns what is missing (no close record, a hole in the numbers, a torn last line) into gap events, so that
// a reader can tell "did not happen" from "was not recorded".
//
// It does not interpret events; that is what the invariants do. It depends on the standard library only, encoding/json/v2 included, which before Go
// 1.27 is a module.
package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Phase places an event in the life of the operation it belongs to.
type Phase string

const (
	// Invoke is written before a call leaves.
	Invoke Phase = "invoke"
	// OK is the completion of a call that took effect.
	OK Phase = "ok"
	// Fail is the completion of a call that certainly took no effect.
	Fail Phase = "fail"
	// Unknown is the completion of a call whose effect cannot be known: a time-out, a lost connection, a 5xx.
	Unknown Phase = "unknown"
	// Observed is something seen rather than done: a watch event, a change of quota, a heartbeat.
	Observed Phase = "observed"
	// Gap says that a source may have lost events at this place: its own writer says so, or Merge found out.
	Gap Phase = "gap"
)

// Event is one line of a history. Body holds one of the types of body.go, chosen by Source.
type Event struct {
	// At is CLOCK_MONOTONIC in nanoseconds when the event was written.
	At time.Duration `json:"at"`
	// Source names the writer: "api/csinodes", "audit", "csi/n1", "backend", "fault", "workload/p1", "probe".
	Source string `json:"src"`
	// Seq counts from 1 within a source, without holes.
	Seq   uint64 `json:"seq"`
	Phase Phase  `json:"ph"`
	// Op joins an invoke to its completion; unique within a source.
	Op string `json:"op,omitempty"`
	// Rev is the etcd revision where there is one: the true order of API objects. 0 means none.
	Rev int64 `json:"rev,omitempty"`
	// Scope is the id of the spec or step that the event belongs to, where the writer knows it.
	Scope string `json:"scope,omitempty"`
	Node  string `json:"node,omitempty"`
	// Key names the object, volume, method or component, according to Source.
	Key  string          `json:"key,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Ref points at one event of a history.
type Ref struct {
	Source string `json:"src"`
	Seq    uint64 `json:"seq"`
}

// Ref returns the reference to e.
func (e Event) Ref() Ref { return Ref{Source: e.Source, Seq: e.Seq} }

func (r Ref) String() string { return fmt.Sprintf("%s#%d", r.Source, r.Seq) }

// Decode reads the body into v. The error names the event.
func (e Event) Decode(v any) error {
	if err := unmarshal(e.Body, v); err != nil {
		return fmt.Errorf("event %s#%d: body: %w", e.Source, e.Seq, err)
	}
	return nil
}

// lenient reads what encoding/json reads and writes, but for names in another case, which nobody writes here.
var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv1.FormatDurationAsNano(true))

// unmarshal is json.Unmarshal by encoding/json/v2, which takes a third of the time.
func unmarshal(b []byte, v any) error {
	err := jsonv2.Unmarshal(b, v, lenient)
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		return misfit{semantic}
	}
	return err
}

// misfit words a SemanticError. The library words it differently from one process to the next, on purpose; a report of the same history must not.
type misfit struct{ *jsonv2.SemanticError }

func (m misfit) Unwrap() error { return m.SemanticError }

func (m misfit) Error() string {
	value := "JSON"
	switch m.JSONKind {
	case 0:
	case '[':
		value += " array"
	case '{':
		value += " object"
	default:
		value += " " + m.JSONKind.String()
	}
	if len(m.JSONValue) > 0 {
		value += " " + string(m.JSONValue)
	}
	text := fmt.Sprintf("%s at %s does not fit Go type %v", value, cmp.Or(string(m.JSONPointer), "the top"), m.GoType)
	if m.Err != nil {
		text += ": " + m.Err.Error()
	}
	return text
}

// Encode returns v as a body. v is one of the types of this package or made of plain fields, so it always encodes; anything else panics.
func Encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("history: body %T does not encode: %v", v, err))
	}
	return b
}

// Now reads CLOCK_MONOTONIC. It panics where the clock cannot be read, which Linux does not allow to happen.
func Now() time.Duration {
	var ts syscall.Timespec
	const clockMonotonic = 1
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(fmt.Sprintf("history: clock_gettime: %v", errno))
	}
	return time.Duration(ts.Nano())
}

// GapSource returns the source that a gap event speaks of, and "" for every other event: a writer confesses a gap in its own file, Merge
// names the file in Key.
func (e Event) GapSource() string {
	switch {
	case e.Phase != Gap:
		return ""
	case e.Source == SourceMerge:
		return e.Key
	}
	return e.Source
}
