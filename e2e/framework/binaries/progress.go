package binaries

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// progress prints one line per component. On a terminal the running line is redrawn each second; elsewhere, in CI logs, a new line says every
// 30 s that the work goes on.
type progress struct {
	out      io.Writer
	terminal bool
	width    int
	now      func() time.Time
	tick     func(time.Duration) (c <-chan time.Time, stop func())
}

func newProgress(out io.Writer, set Set) *progress {
	p := &progress{out: out, terminal: isTerminal(out), now: time.Now, tick: func(d time.Duration) (<-chan time.Time, func()) {
		t := time.NewTicker(d)
		return t.C, t.Stop
	}}
	for _, c := range set {
		p.width = max(p.width, len(title(c)))
	}
	return p
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func title(c Component) string { return c.Name + " " + c.Version.String() }

// line is the progress of one component. It prints nothing until its first call, and nothing after end.
type line struct {
	p     *progress
	title string

	mu    sync.Mutex
	text  string
	began time.Time
	halt  chan struct{}
	done  chan struct{}
}

func (p *progress) line(c Component) *line { return &line{p: p, title: title(c), began: p.now()} }

// begin starts a stage and its clock.
func (l *line) begin(text string) {
	l.stop()
	l.mu.Lock()
	l.text, l.began = text, l.p.now()
	l.print(text, !l.p.terminal)
	l.mu.Unlock()
	every := 30 * time.Second
	if l.p.terminal {
		every = time.Second
	}
	ticks, release := l.p.tick(every)
	l.halt, l.done = make(chan struct{}), make(chan struct{})
	go func(halt <-chan struct{}, done chan<- struct{}) {
		defer close(done)
		defer release()
		for {
			select {
			case <-halt:
				return
			case <-ticks:
				l.mu.Lock()
				l.print(l.text+" "+l.since(), !l.p.terminal)
				l.mu.Unlock()
			}
		}
	}(l.halt, l.done)
}

// note prints a line without ending the stage.
func (l *line) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print(text, true)
}

// end prints the last line.
func (l *line) end(text string) {
	l.stop()
	l.note(text)
}

func (l *line) stop() {
	if l.halt != nil {
		close(l.halt)
		<-l.done
		l.halt = nil
	}
}

// elapsed is the time since begin: "7m36s", or "0.4s" below ten seconds.
func (l *line) elapsed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since()
}

func (l *line) since() string {
	d := l.p.now().Sub(l.began)
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// print holds l.mu. A failure to write progress must not fail the work.
func (l *line) print(text string, newline bool) {
	before, after := "", ""
	if l.p.terminal {
		before = "\r\x1b[K"
	}
	if newline {
		after = "\n"
	}
	fmt.Fprintf(l.p.out, "%s  %-*s  %s%s", before, l.p.width, l.title, text, after)
}
