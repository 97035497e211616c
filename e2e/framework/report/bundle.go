package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// DirEvidence holds one bundle for each violation: <invariant>-<subject>.jsonl.
const DirEvidence = "evidence"

const (
	// around is how much of a node's history lies in a bundle, before and after each piece of evidence.
	around = 5 * time.Second
	// maxBundles and maxBundled bound the bundles of a run and the events of a bundle; report.yaml and the history have the rest.
	maxBundles = 100
	maxBundled = 5000
)

// Bundle is the first line of a bundle. Below it are events as the history has them, each within 5 s of a piece of evidence and of the same node, or
// evidence itself; then one Excerpt for each log.
type Bundle struct {
	Invariant string           `json:"invariant"`
	Claim     string           `json:"claim,omitempty"`
	Boundary  history.Boundary `json:"boundary"`
	Subject   string           `json:"subject"`
	Spec      string           `json:"spec,omitempty"`
	Detail    string           `json:"detail,omitempty"`
	// Evidence are the references of the events that prove the violation.
	Evidence []string `json:"evidence"`
	// LeftOut is how many events of the node were too many.
	LeftOut int `json:"leftOut,omitempty"`
}

// bundle is a Bundle in the making.
type bundle struct {
	Bundle
	file   string
	refs   map[string]bool
	nodes  map[string]bool
	from   []time.Duration // the middle of each window
	events []json.RawMessage
}

// WriteEvidence writes a bundle for each violated verdict of r to dir/evidence, in place of those that are there, from one more pass over the events.
// An error of the history ends the pass: what came before it is written. Without a violation there is no dir/evidence.
func WriteEvidence(dir string, r Report, events iter.Seq2[history.Event, error]) error {
	out := filepath.Join(dir, DirEvidence)
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	all := bundles(r)
	if len(all) == 0 {
		return nil
	}
	var clock clock
	var wall wallClock
	for e, err := range events {
		if err != nil {
			break
		}
		if e.Phase != history.Gap && !clock.started {
			clock.start, clock.started = e.At, true
		}
		wall.observe(e)
		for _, b := range all {
			b.observe(e, e.At-clock.start)
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	var errs []error
	for _, b := range all {
		errs = append(errs, b.write(dir, out, clock, wall))
	}
	return errors.Join(errs...)
}

// bundles are those to write, each with a file name of its own.
func bundles(r Report) []*bundle {
	var all []*bundle
	taken := map[string]int{}
	for _, i := range r.Invariants {
		for _, v := range i.Verdicts {
			if v.Status != Violated || len(all) == maxBundles {
				continue
			}
			b := &bundle{
				Bundle: Bundle{Invariant: i.Name, Claim: i.Claim, Boundary: v.Boundary, Subject: v.Subject, Spec: v.Spec, Detail: v.Detail, Evidence: []string{}},
				refs:   map[string]bool{}, nodes: map[string]bool{},
			}
			for _, e := range v.Evidence {
				b.Evidence = append(b.Evidence, e.Ref)
				b.refs[e.Ref] = true
				if !e.Missing {
					b.from = append(b.from, time.Duration(e.At))
					b.nodes[e.Node] = true
				}
			}
			node, _, _ := strings.Cut(v.Subject, "/") // "n1/driver", "n1"; that of a pod is no node and matches nothing
			b.nodes[node] = true
			delete(b.nodes, "")
			b.file = fileName(i.Name + "-" + v.Subject)
			taken[b.file]++
			if n := taken[b.file]; n > 1 {
				b.file += fmt.Sprintf("-%d", n)
			}
			all = append(all, b)
		}
	}
	return all
}

// fileName keeps of s what every file system takes.
func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(len(s), 120)], ".-")
}

// observe takes what belongs to the bundle; at is counted from the first event.
func (b *bundle) observe(e history.Event, at time.Duration) {
	if !b.refs[e.Ref().String()] {
		near := func(t time.Duration) bool { return at >= t-around-time.Microsecond && at <= t+around+time.Microsecond } // reports round to microseconds
		if !slices.ContainsFunc(b.from, near) || !b.nodes[e.Node] && !b.nodes[e.Key] {
			return
		}
		if len(b.events) >= maxBundled {
			b.LeftOut++
			return
		}
	}
	b.events = append(b.events, history.Encode(e))
}

func (b *bundle) write(dir, out string, clock clock, wall wallClock) error {
	var text bytes.Buffer
	w := bufio.NewWriter(&text)
	enc := json.NewEncoder(w)
	errs := []error{enc.Encode(b.Bundle)}
	for _, e := range b.events {
		errs = append(errs, enc.Encode(e))
	}
	var windows []span
	for _, at := range b.from {
		windows = append(windows, span{wall.at(clock.start + at - around), wall.at(clock.start + at + around)})
	}
	for _, path := range logsOf(dir, b.Boundary, b.nodes, b.Subject) {
		found, err := excerpt(dir, path, windows)
		errs = append(errs, err)
		if err == nil {
			errs = append(errs, enc.Encode(found))
		}
	}
	errs = append(errs, w.Flush(), WriteFile(filepath.Join(out, b.file+".jsonl"), text.Bytes()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write evidence of %s %q: %w", b.Invariant, b.Subject, err)
	}
	return nil
}
