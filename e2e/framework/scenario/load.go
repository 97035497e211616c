package scenario

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/strict"
	"headroom/e2e/framework/versions"
)

const (
	// maxNodes and maxSteps keep a scenario to what one machine can run.
	maxNodes = 50
	maxSteps = 1000
	// defaultLimit and maxLimit bound a scenario's duration.
	defaultLimit = 5 * time.Minute
	maxLimit     = 30 * time.Minute
	// maxDriverName is the most that the API accepts for the name of a CSIDriver.
	maxDriverName = 63
	// shortestPeriod is the least that the API accepts.
	shortestPeriod = 10 * time.Second
)

var name = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Load decodes and checks a scenario. file is for messages, data its content. The error lists everything that is wrong, each with file, line, field
// and remedy. Nothing is started.
func Load(file string, data []byte, c Catalog) (*Scenario, error) {
	var s Scenario
	f := strict.Decode(file, data, &s)
	if err := f.Err(); err != nil {
		return nil, err // later problems would follow from these
	}
	check := checker{File: f, s: &s, catalog: c, pods: map[string]bool{}, active: map[string]bool{}, ids: map[string]int{}}
	check.head()
	check.layout()
	check.driver()
	check.steps()
	check.expect()
	if err := f.Err(); err != nil {
		return nil, err
	}
	if s.Limit == 0 {
		s.Limit = history.Duration(defaultLimit)
	}
	return &s, nil
}

// checker looks at what a decoded scenario means.
type checker struct {
	*strict.File
	s       *Scenario
	catalog Catalog
	pods    map[string]bool // made by the steps so far
	active  map[string]bool // ids of faults that no step has healed yet
	ids     map[string]int  // the step that injects an id, of all steps
	at      history.Duration
}

func (c *checker) head() {
	for field, pair := range map[string][2]string{"apiVersion": {c.s.APIVersion, APIVersion}, "kind": {c.s.Kind, Kind}} {
		if pair[0] != pair[1] {
			c.Fail(field, "write "+pair[1], "want %q, got %q", pair[1], pair[0])
		}
	}
	if !name.MatchString(c.s.Metadata.Name) {
		c.Fail("metadata.name", "shorten it, and use only these", "want at most 32 lower-case letters, digits and dashes, beginning with a letter, got %q", c.s.Metadata.Name)
	}
	if limit := time.Duration(c.s.Limit); limit > maxLimit {
		c.Fail("limit", "split the scenario, or lower it", "want at most %s, got %s", maxLimit, limit)
	}
	if p := c.s.Period; p != nil && (time.Duration(*p) < shortestPeriod || time.Duration(*p)%time.Second != 0) {
		c.Fail("period", "raise it to 10s or more, or patch the csidriver in a step to have it refused", "want whole seconds, at least 10s, got %s", *p)
	}
}

// kinds are the components whose versions a step chooses: all that have the version of a Kubernetes release.
var kinds = slices.DeleteFunc(slices.Clone(versions.Versioned), func(kind string) bool { return kind == versions.AttacherComponent })

func (c *checker) layout() {
	l := c.s.Topology
	c.version("topology.kubernetes", "", l.Kubernetes)
	for _, kind := range slices.Sorted(maps.Keys(l.Components)) {
		at := strict.Join("topology.components", kind)
		if !slices.Contains(versions.Named, kind) {
			c.Fail(at, "correct its name, or remove it", "unknown component %q; known: %s", kind, strings.Join(versions.Named, ", "))
			continue
		}
		c.version(at, kind, l.Components[kind])
	}
	c.skew()
	for _, kind := range slices.Sorted(maps.Keys(l.Gates)) {
		c.gates(kind, l.Gates[kind])
	}
	if n := len(l.Nodes); n < 1 || n > maxNodes {
		c.Fail("topology.nodes", "list them", "want 1 to %d nodes, got %d", maxNodes, n)
	}
	for i, n := range l.Nodes {
		if n.Foreign < 0 {
			c.Fail(strict.At("topology.nodes", i)+".foreign", "write 0 or more", "%d foreign attachments", n.Foreign)
		}
	}
}

// version checks that there is such a version of a component; "" is any of Kubernetes.
func (c *checker) version(field, component string, v versions.Version) {
	if v == "" {
		return
	}
	if err := versions.Embedded().Row(component, v); err != nil {
		c.Fail(field, "name a known one, or add a row to kind-configs/versions.yaml", "%v", err)
	}
}

// skew checks the topology's versions against the version skew policy.
func (c *checker) skew() {
	l := c.s.Topology
	release, err := versions.Lookup(l.Release())
	if err != nil {
		return // a problem already
	}
	all, err := release.Of().With(l.Components)
	if err != nil || l.AllowUnsupportedSkew {
		return
	}
	if err := versions.Embedded().Skew.Check(all); err != nil {
		c.Fail("topology.components", "choose other versions, or write allowUnsupportedSkew: true below topology", "%v", err)
	}
}

func (c *checker) gates(kind string, gates map[string]bool) {
	at := strict.Join("topology.gates", kind)
	if !slices.Contains(versions.Versioned, kind) {
		c.Fail(at, "correct its name, or remove it", "unknown component %q; known: %s", kind, strings.Join(versions.Versioned, ", "))
		return
	}
	table, v := versions.Embedded(), c.s.Topology.Version(kind)
	if table.Row(kind, v) != nil {
		return // its version is a problem already
	}
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		var bad *versions.GateError
		if err := table.CheckGate(kind, v, gate, gates[gate]); errors.As(err, &bad) {
			c.Fail(strict.Join(at, gate), bad.Remedy(), "%v", bad)
		}
	}
}

func (c *checker) driver() {
	d := c.s.Driver
	// Name and driver make up the name of a CSI driver, which holds 63 characters: <name>.<driver>.headroom.test.
	if n := len(c.s.Metadata.Name) + len(d.Name) + len("..headroom.test"); n > maxDriverName && !strings.Contains(d.Name, "/") {
		c.Fail("metadata.name", "shorten it", "with driver %q it is %d characters too long for the name of a CSI driver", d.Name, n-maxDriverName)
	}
	if d.Name != "" {
		if err := c.catalog.Driver(d.Name); err != nil {
			c.Fail("driver.name", "name a driver of `headroom drivers`, or a path from the scenario's own directory", "%v", err)
			return
		}
	}
	if f := d.Figures; f != nil && f.Step < 0 {
		c.Fail("driver.figures.step", "write 1 or more", "%d volumes", f.Step)
	} else if f != nil {
		if err := c.catalog.Figures(d.Name, *f); err != nil {
			c.Fail("driver.figures", "raise the one, or lower the other", "%v", err)
		}
	}
}

// target checks that a target is of a class that fits and on a node that exists.
func (c *checker) target(field string, t Target, classes ...Class) {
	switch n := len(c.s.Topology.Nodes); {
	case !slices.Contains(classes, t.Class):
		c.Fail(field, "name one of these", "want %s, got %q", written(classes), t)
	case t.Node > n:
		c.Fail(field, "name a node that there is, or add one to topology.nodes", "%q is node %d of %d", t, t.Node, n)
	}
}

// positive checks a duration that must not be 0.
func (c *checker) positive(field string, d history.Duration) {
	if d <= 0 {
		c.Fail(field, "write a duration such as 10s", "want more than 0, got %s", d)
	}
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprintf("%q", names)
}
