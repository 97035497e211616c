package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

const (
	// maxEvidence bounds the events kept per verdict; a verdict may name thousands.
	maxEvidence = 32
	// maxBody bounds the bytes kept of an event's body; the history has the rest.
	maxBody = 2000
)

// evidence collects the events that verdicts name, in one pass.
type evidence struct {
	wanted map[history.Ref]*Event // nil until seen
}

func newEvidence(judged []Judged) *evidence {
	c := &evidence{wanted: map[history.Ref]*Event{}}
	for _, j := range judged {
		for _, v := range j.Verdicts {
			for _, ref := range cite(v) {
				c.wanted[ref] = nil
			}
		}
	}
	return c
}

// cite returns the references that are shown of a verdict. What held needs no proof.
func cite(v invariants.Verdict) []history.Ref {
	if v.Status == invariants.Held {
		return nil
	}
	return v.Evidence[:min(len(v.Evidence), maxEvidence)]
}

func (c *evidence) observe(e history.Event, clock *clock) {
	if _, ok := c.wanted[e.Ref()]; ok {
		found := cut(e, clock)
		c.wanted[e.Ref()] = &found
	}
}

// of returns the verdict's evidence in the verdict's order.
func (c *evidence) of(v invariants.Verdict) []Event {
	var out []Event
	for _, ref := range cite(v) {
		if found := c.wanted[ref]; found != nil {
			out = append(out, *found)
			continue
		}
		out = append(out, Event{Ref: ref.String(), Missing: true})
	}
	return out
}

func cut(e history.Event, clock *clock) Event {
	body := string(e.Body)
	if len(body) > maxBody {
		body = strings.ToValidUTF8(body[:maxBody], "") + "..."
	}
	return Event{Ref: e.Ref().String(), At: clock.since(e.At), Phase: e.Phase, Node: e.Node, Key: e.Key, Body: body}
}

// line is the event on one line: +12.345s source#number phase key node body.
func (e Event) line() string {
	if e.Missing {
		return e.Ref + "  is not in this history"
	}
	words := []string{offset(e.At), e.Ref}
	if e.Phase != history.Observed {
		words = append(words, string(e.Phase))
	}
	words = append(words, e.Key, e.Node, brief(e.Body))
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	return strings.Join(words, "  ")
}

// brief writes a JSON object as key=value pairs, which is shorter and keeps its order; anything else stays as it is.
func brief(body string) string {
	d := json.NewDecoder(strings.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return body
	}
	var pairs []string
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return body
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return body // cut off
		}
		name, _ := key.(string)
		pairs = append(pairs, name+"="+briefValue(value))
	}
	return strings.Join(pairs, " ")
}

func briefValue(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil && s != "" && !strings.ContainsAny(s, " \t\n\"=") {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return string(value)
	}
	return b.String()
}
