package kind

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/kind/pkg/log"

	"headroom/e2e/framework/cluster/kind/engine"
)

// steps listens to kind's log, for how long each step took: kind says when a step begins and when it has ended.
type steps struct {
	out   io.Writer
	began time.Time

	mu       sync.Mutex
	current  string
	since    time.Time
	warnings []string
}

func newSteps(out io.Writer) *steps {
	if out == nil {
		out = io.Discard
	}
	return &steps{out: out, began: time.Now()}
}

func (s *steps) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "  "+format+"\n", args...) // what cannot be shown is not worth failing for
}

// named are the steps worth a line, by what kind calls them.
var named = []struct{ kind, name string }{
	{"Preparing nodes", "node containers"},
	{"Starting control-plane", "control plane"},
	{"Joining worker nodes", "workers joined"},
}

// step runs f and tells how long it took.
func (s *steps) step(name string, f func() error) error {
	began := time.Now()
	err := f()
	s.tell(name, time.Since(began))
	return err
}

func (s *steps) tell(name string, took time.Duration) { s.say("%-16s %5.1fs", name, took.Seconds()) }

// hear takes a line of kind's log.
func (s *steps) hear(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch mark {
	case "•":
		s.current, s.since = text, time.Now()
	case "✓", "✗":
		for _, n := range named {
			if strings.Contains(s.current, n.kind) {
				s.tell(n.name, time.Since(s.since))
			}
		}
		s.current = ""
	}
}

// Warn and the rest are log.Logger.
func (s *steps) Warn(message string)               { s.warn(message) }
func (s *steps) Warnf(format string, args ...any)  { s.warn(fmt.Sprintf(format, args...)) }
func (s *steps) Error(message string)              { s.warn(message) }
func (s *steps) Errorf(format string, args ...any) { s.warn(fmt.Sprintf(format, args...)) }
func (s *steps) V(level log.Level) log.InfoLogger  { return info{steps: s, enabled: level <= 0} }

// warn keeps what may explain a failure. That we chose the network is none.
func (s *steps) warn(text string) {
	if strings.Contains(text, engine.NetworkEnv) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, text)
}

func (s *steps) warned() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.warnings, "; ")
}

type info struct {
	steps   *steps
	enabled bool
}

func (i info) Info(message string) {
	if i.enabled {
		i.steps.hear(message)
	}
}
func (i info) Infof(format string, args ...any) { i.Info(fmt.Sprintf(format, args...)) }
func (i info) Enabled() bool                    { return i.enabled }
