package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
)

// death is how a process of a driver ended by itself.
type death struct {
	// id is the component's; node is where it was, "" for a controller.
	id, driver, node, exit string
	times                  int
}

// unlessDied makes a spec's failure one of the driver, where a process of the driver has ended by itself in the spec's bench: whatever the spec saw came
// after that, or of it. Pods have no such record: their kubelet starts containers again.
func (s *Session) unlessDied(scope string, failure error) error {
	if failure == nil || scope == "" || errors.As(failure, new(*cluster.DriverError)) {
		return failure
	}
	all, err := deaths(s.events(), scope)
	s.Problem("look for drivers that ended", err)
	if len(all) == 0 {
		return failure
	}
	var text strings.Builder
	for _, d := range all {
		fmt.Fprintf(&text, "\n  %s ended by itself (%s)", d.id, d.exit)
		if d.times > 1 {
			fmt.Fprintf(&text, ", the last of %d times", d.times)
		}
		text.WriteString(cluster.LogTail(filepath.Join(s.Dir, "logs", filepath.FromSlash(d.id)+".log")))
	}
	return &cluster.DriverError{Driver: all[0].driver, Node: all[0].node, Err: fmt.Errorf("%w%s", failure, text.String())}
}

// deaths reads how processes of the drivers of a bench ended that nobody had asked to, the controller first.
func deaths(events, scope string) (all []*death, err error) {
	dir := filepath.FromSlash(history.PrefixComponent)
	files, err := filepath.Glob(filepath.Join(events, dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	known := map[string]*death{}
	for _, file := range files { // sorted: that of the cell is before those of nodes
		source := history.PrefixComponent + strings.TrimSuffix(filepath.Base(file), ".jsonl")
		_, err := history.Count(events, source, func(e history.Event) bool {
			var body history.Component
			driver, node, ok := driverOf(e.Key, scope)
			if !ok || e.Decode(&body) != nil || body.State != "exited" {
				return false
			}
			d := known[e.Key]
			if d == nil {
				d = &death{id: e.Key, driver: driver, node: node}
				known[e.Key], all = d, append(all, d)
			}
			d.exit, d.times = body.Exit, d.times+1
			return false
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// driverOf says whose process a component is, where it is a driver's of a bench.
func driverOf(id, scope string) (driver, node string, ok bool) {
	part, rest, _ := strings.Cut(id, "@")
	switch part {
	case "driver-controller":
		return rest, "", strings.HasPrefix(rest, scope+".")
	case "driver":
		node, driver, _ = strings.Cut(rest, "/")
		return driver, node, strings.HasPrefix(driver, scope+".")
	}
	return "", "", false
}
