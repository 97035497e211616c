package drivers

import (
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/strict"
)

const (
	apiVersion = "headroom/v1alpha1"
	kind       = "Driver"
)

// file is a driver's definition as it is written.
type file struct {
	APIVersion  string   `yaml:"apiVersion"`
	Kind        string   `yaml:"kind"`
	Name        string   `yaml:"name"`
	Description string   `yaml:"description,omitempty"`
	Figures     figures  `yaml:"figures"`
	Node        command  `yaml:"node"`
	Controller  *command `yaml:"controller,omitempty"`
}

type figures struct {
	MinInterval  history.Duration `yaml:"minInterval"`
	CacheAge     history.Duration `yaml:"cacheAge"`
	LastGoodLife history.Duration `yaml:"lastGoodLife"`
	Step         int64            `yaml:"step,omitempty"`
	StepInterval history.Duration `yaml:"stepInterval,omitempty"`
}

type command struct {
	Command []string `yaml:"command"`
}

// decode reads a definition. The error lists all that is wrong with it.
func decode(name string, data []byte) (*Definition, error) {
	var in file
	f := strict.Decode(name, data, &in)
	if err := f.Err(); err != nil {
		return nil, err // later problems would follow from these
	}
	for field, pair := range map[string][2]string{"apiVersion": {in.APIVersion, apiVersion}, "kind": {in.Kind, kind}} {
		if pair[0] != pair[1] {
			f.Fail(field, "write "+pair[1], "want %q, got %q", pair[1], pair[0])
		}
	}
	def := &Definition{Name: in.Name, Description: in.Description, Figures: in.Figures.check(f), node: in.Node.Command}
	checkCommand(f, "node.command", def.node)
	if in.Controller != nil {
		def.controller = in.Controller.Command
		checkCommand(f, "controller.command", def.controller)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return def, nil
}

// check looks at what the figures mean together.
func (in figures) check(f *strict.File) Figures {
	out := Figures{
		MinInterval: time.Duration(in.MinInterval), CacheAge: time.Duration(in.CacheAge), LastGoodLife: time.Duration(in.LastGoodLife),
		Step: in.Step, StepInterval: time.Duration(in.StepInterval),
	}
	for field, d := range map[string]time.Duration{"minInterval": out.MinInterval, "cacheAge": out.CacheAge, "lastGoodLife": out.LastGoodLife} {
		if d <= 0 {
			f.Fail("figures."+field, "write a number with a unit, such as 10s or 1m30s", "want a duration above 0, got %s", d)
		}
	}
	if out.CacheAge < out.MinInterval {
		f.Fail("figures.cacheAge", "raise it to minInterval or more", "%s is less than minInterval %s", out.CacheAge, out.MinInterval)
	}
	if out.LastGoodLife < out.CacheAge {
		f.Fail("figures.lastGoodLife", "raise it to cacheAge or more", "%s is less than cacheAge %s", out.LastGoodLife, out.CacheAge)
	}
	switch {
	case out.Step < 0:
		f.Fail("figures.step", "write 0 (not limited) or more", "want a number of volumes, got %d", out.Step)
	case out.Step > 0 && out.StepInterval == 0:
		f.Fail("figures.step", "add stepInterval, such as 10s", "%d without a stepInterval", out.Step)
	case out.Step == 0 && out.StepInterval > 0:
		f.Fail("figures.stepInterval", "add step, or remove stepInterval", "%s without a step", out.StepInterval)
	}
	return out
}

func checkCommand(f *strict.File, at string, words []string) {
	if len(words) == 0 {
		f.Fail(at, `write it as a list, such as ["./driver", "--endpoint=${ENDPOINT}"]`, "has no words")
		return
	}
	for i, word := range words {
		if _, err := expand(word, (&Definition{}).values(Instance{})); err != nil {
			f.Fail(strict.At(at, i), "correct the name, or write the value itself", "%v", err)
		}
	}
	if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "${ENDPOINT}") }) {
		f.Fail(at, "pass the socket to serve on, such as --endpoint=${ENDPOINT}", "has no ${ENDPOINT}")
	}
}
