package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

const (
	// maxLogLines bounds an excerpt, maxLogBytes what is read from the end of a log.
	maxLogLines = 100
	maxLogBytes = 4 << 20
)

// Excerpt is part of a component's log: the lines near the evidence where their times can be read, else the last lines.
type Excerpt struct {
	// Log is the file, relative to the run directory.
	Log string `json:"log"`
	// Near says that the lines are of the time of the evidence.
	Near  bool     `json:"near"`
	Lines []string `json:"lines"`
}

// logNames are the logs of each boundary, as patterns below logs/; NODE is a node, DRIVER a CSI driver's name.
var logNames = map[history.Boundary][]string{
	history.Driver:            {"driver@NODE/*", "driver-controller@DRIVER.log"},
	history.Attacher:          {"csi-attacher@DRIVER.log"},
	history.Provisioner:       {"csi-provisioner@DRIVER.log"},
	history.Kubelet:           {"kubelet@NODE.log"},
	history.Scheduler:         {"kube-scheduler.log"},
	history.APIServer:         {"kube-apiserver.log"},
	history.ControllerManager: {"kube-controller-manager.log"},
	history.Harness:           {"cell.log", "specs.log"},
}

// LogNames says which logs of a run directory to look at when a boundary broke.
func LogNames(b history.Boundary) []string { return logNames[b] }

// logsOf finds the logs of a boundary for nodes, and for the driver that a subject "node/driver" names, relative to dir.
func logsOf(dir string, b history.Boundary, nodes map[string]bool, subject string) []string {
	names := []string{}
	for n := range nodes {
		names = append(names, n)
	}
	_, driver, _ := strings.Cut(subject, "/")
	if driver == "" {
		driver = "\x00" // matches nothing: every driver's log would be too much
	}
	var out []string
	for _, pattern := range logNames[b] {
		for _, node := range slices.Sorted(slices.Values(names)) {
			p := strings.ReplaceAll(strings.ReplaceAll(pattern, "NODE", globQuote(node)), "DRIVER", globQuote(driver))
			found, err := filepath.Glob(filepath.Join(globQuote(dir), "logs", p))
			if err != nil {
				continue // the pattern is made of quoted names
			}
			for _, path := range found {
				if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !slices.Contains(out, path) {
					out = append(out, path)
				}
			}
		}
	}
	return out
}

// span is a stretch of wall-clock time; zero where it is not known.
type span struct{ from, to time.Time }

// excerpt reads the part of a log that is about the windows.
func excerpt(dir, path string, windows []span) (Excerpt, error) {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return Excerpt{}, err
	}
	out := Excerpt{Log: filepath.ToSlash(rel), Lines: []string{}}
	text, err := tailOf(path)
	if err != nil {
		return Excerpt{}, err
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines {
		if near(line, windows) && len(out.Lines) < maxLogLines {
			out.Lines = append(out.Lines, printable(line))
			out.Near = true
		}
	}
	if !out.Near && text != "" {
		for _, line := range lines[max(0, len(lines)-maxLogLines):] {
			out.Lines = append(out.Lines, printable(line))
		}
	}
	return out, nil
}

// tailOf reads the end of a file.
func tailOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // read only: closing has nothing to lose
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-maxLogBytes)
	b, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return string(b), nil
}

// logTimes are how lines of Kubernetes components ("I1129 15:48:00.123456") and of Go programs ("2026/11/29 15:48:00", behind a prefix of their own) say
// when they were written: in local time, Kubernetes without a year.
var logTimes = []struct {
	form   *regexp.Regexp
	layout string
}{
	{regexp.MustCompile(`^[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{1,9})`), "0102 15:04:05"},
	{regexp.MustCompile(`^(?:\S+ ){0,2}(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?) `), "2006/01/02 15:04:05"},
}

// written is when a line was written, in the zone and, where it has none, in the year of a time near it; false where the line does not say.
func written(line string, about time.Time) (time.Time, bool) {
	for _, l := range logTimes {
		if m := l.form.FindStringSubmatch(line); m != nil {
			at, err := time.ParseInLocation(l.layout, m[1], about.Location())
			if err == nil && at.Year() == 0 {
				at = at.AddDate(about.Year(), 0, 0)
			}
			return at, err == nil
		}
	}
	return time.Time{}, false
}

// near says whether a line was written in one of the windows.
func near(line string, windows []span) bool {
	return slices.ContainsFunc(windows, func(w span) bool {
		at, ok := written(line, w.from)
		return ok && !w.from.IsZero() && !at.Before(w.from) && !at.After(w.to)
	})
}

// wallClock turns times of the history into those of the machine's wall clock, from the first heartbeat.
type wallClock struct {
	known bool
	mono  time.Duration
	wall  time.Time
}

func (c *wallClock) observe(e history.Event) {
	var b history.Beat
	if c.known || !strings.HasPrefix(e.Source, history.PrefixBeat) || e.Decode(&b) != nil || b.Wall.IsZero() {
		return
	}
	c.known, c.mono, c.wall = true, e.At, b.Wall
}

// at is zero where no heartbeat was seen.
func (c *wallClock) at(t time.Duration) time.Time {
	if !c.known {
		return time.Time{}
	}
	return c.wall.Add(t - c.mono)
}
