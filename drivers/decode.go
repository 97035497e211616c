package drivers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const apiVersion = "headroom/v1alpha1"

// decoder reads one file. Its first error ends the reading: later ones would often follow from it.
type decoder struct {
	file string
	err  error
}

func decode(file string, data []byte) (*Definition, error) {
	d := &decoder{file: file}
	def := d.definition(data)
	if d.err != nil {
		return nil, d.err
	}
	return def, nil
}

func (d *decoder) definition(data []byte) *Definition {
	root := d.document(data)
	f := d.mapping(root, "", "apiVersion", "kind", "name", "description", "figures", "node", "controller")
	d.constant(root, f, "apiVersion", apiVersion)
	d.constant(root, f, "kind", "Driver")
	def := &Definition{
		Name:        d.text(d.required(root, f, "", "name"), "name"),
		Description: d.text(f["description"], "description"),
	}
	if figures := d.required(root, f, "", "figures"); figures != nil {
		def.Figures = d.figures(figures)
	}
	if node := d.required(root, f, "", "node"); node != nil {
		def.node = d.command(node, "node", def)
	}
	if controller := f["controller"]; controller != nil {
		def.controller = d.command(controller, "controller", def)
	}
	return def
}

func (d *decoder) figures(n *yaml.Node) Figures {
	const at = "figures"
	f := d.mapping(n, at, "minInterval", "cacheAge", "lastGoodLife", "step", "stepInterval")
	out := Figures{
		MinInterval:  d.duration(d.required(n, f, at, "minInterval"), "figures.minInterval"),
		CacheAge:     d.duration(d.required(n, f, at, "cacheAge"), "figures.cacheAge"),
		LastGoodLife: d.duration(d.required(n, f, at, "lastGoodLife"), "figures.lastGoodLife"),
		Step:         d.count(f["step"], "figures.step"),
		StepInterval: d.duration(f["stepInterval"], "figures.stepInterval"),
	}
	switch {
	case d.err != nil:
	case out.CacheAge < out.MinInterval:
		d.fail(f["cacheAge"], "figures.cacheAge", "%s is less than minInterval %s", "raise it to minInterval or more", out.CacheAge, out.MinInterval)
	case out.LastGoodLife < out.CacheAge:
		d.fail(f["lastGoodLife"], "figures.lastGoodLife", "%s is less than cacheAge %s", "raise it to cacheAge or more", out.LastGoodLife, out.CacheAge)
	case out.Step > 0 && out.StepInterval == 0:
		d.fail(f["step"], "figures.step", "%d without a stepInterval", "add stepInterval, such as 10s", out.Step)
	case out.Step == 0 && out.StepInterval > 0:
		d.fail(f["stepInterval"], "figures.stepInterval", "%s without a step", "add step, or remove stepInterval", out.StepInterval)
	}
	return out
}

func (d *decoder) command(n *yaml.Node, at string, def *Definition) []string {
	f := d.mapping(n, at, "command")
	list := d.required(n, f, at, "command")
	at += ".command"
	if list == nil {
		return nil
	}
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		d.fail(list, at, "is not a list of words", `write it as a list, such as ["./driver", "--endpoint=${ENDPOINT}"]`)
		return nil
	}
	var words []string
	for i, item := range list.Content {
		field := fmt.Sprintf("%s[%d]", at, i)
		word := d.text(item, field)
		if _, err := expand(word, def.values(Instance{})); err != nil {
			d.fail(item, field, "%v", "correct the name, or write the value itself", err)
		}
		words = append(words, word)
	}
	if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "${ENDPOINT}") }) {
		d.fail(list, at, "has no ${ENDPOINT}", "pass the socket to serve on, such as --endpoint=${ENDPOINT}")
	}
	return words
}

// document returns the root of the only document in data.
func (d *decoder) document(data []byte) *yaml.Node {
	var doc, second yaml.Node
	r := yaml.NewDecoder(bytes.NewReader(data))
	if err := r.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		d.err = fmt.Errorf("%s: not YAML: %s (remedy: start from drivers/steady.yaml)", d.file, strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if err := r.Decode(&second); !errors.Is(err, io.EOF) {
		d.err = fmt.Errorf("%s: more than one document (remedy: one driver per file)", d.file)
		return nil
	}
	return doc.Content[0]
}

// mapping returns the values of a mapping by key.
func (d *decoder) mapping(n *yaml.Node, at string, known ...string) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if n == nil {
		return out
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, at, "is not a mapping", "write it as key: value lines with "+strings.Join(known, ", "))
		return out
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		field := join(at, key.Value)
		if !slices.Contains(known, key.Value) {
			d.fail(key, field, "unknown field", "want one of "+strings.Join(known, ", "))
		}
		if line, again := lines[key.Value]; again {
			d.fail(key, field, "given again, first on line %d", "remove one of the two", line)
		}
		lines[key.Value] = key.Line
		out[key.Value] = n.Content[i+1]
	}
	return out
}

func (d *decoder) required(parent *yaml.Node, f map[string]*yaml.Node, at, key string) *yaml.Node {
	if f[key] == nil && parent != nil {
		d.fail(parent, join(at, key), "missing", "add it")
	}
	return f[key]
}

func (d *decoder) constant(root *yaml.Node, f map[string]*yaml.Node, key, want string) {
	n := d.required(root, f, "", key)
	if got := d.text(n, key); n != nil && got != want {
		d.fail(n, key, "got %q", "write "+want, got)
	}
}

// text is a string that says something; nil reads as "".
func (d *decoder) text(n *yaml.Node, at string) string {
	if n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
		d.fail(n, at, "want text, got %s", "write text, in quotes where it looks like something else", describe(n))
		return ""
	}
	return n.Value
}

// duration is 0 or more; nil reads as 0.
func (d *decoder) duration(n *yaml.Node, at string) time.Duration {
	if n == nil {
		return 0
	}
	v, err := time.ParseDuration(n.Value)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!int" {
		d.fail(n, at, "%s has no unit", "write the unit, such as "+n.Value+"s", n.Value)
		return 0
	}
	if n.Kind != yaml.ScalarNode || err != nil || v <= 0 {
		d.fail(n, at, "want a duration above 0, got %s", "write a number with a unit, such as 10s or 1m30s", describe(n))
		return 0
	}
	return v
}

// count is 0 or more; nil reads as 0.
func (d *decoder) count(n *yaml.Node, at string) int64 {
	if n == nil {
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 32)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || v < 0 {
		d.fail(n, at, "want a whole number of volumes, got %s", "write 0 (not limited) or more", describe(n))
		return 0
	}
	return v
}

// fail keeps the first error: file, line, field, what is wrong, remedy.
func (d *decoder) fail(n *yaml.Node, at, format, remedy string, args ...any) {
	if d.err != nil {
		return
	}
	if at == "" {
		at = "the file"
	}
	d.err = fmt.Errorf("%s:%d: %s: %s (remedy: %s)", d.file, n.Line, at, fmt.Sprintf(format, args...), remedy)
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}
