package pods

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kubeyaml "sigs.k8s.io/yaml"

	"headroom/e2e/framework/strict"
)

// maxValues bounds what the aliases of an object may make of it; an API server takes no more than 1.5 MiB.
const maxValues = 1 << 18

// valuer turns the nodes of an object into the values that kubectl would send: what a scalar or a key means, sigs.k8s.io/yaml says, which kubectl reads
// with. It differs from this project's YAML library in what is a number, a date or a boolean.
type valuer struct {
	*reader
	file File
	// object is how messages name it.
	object string
	// within are the nodes around the one that is looked at; an alias of one of them would have no end.
	within map[*yaml.Node]bool
	count  int
}

// fail notes what is wrong with a node. A template's braces are YAML too, and mean something else there.
func (v *valuer) fail(n *yaml.Node, field, remedy, format string, args ...any) {
	what := v.object + ": " + fmt.Sprintf(format, args...)
	lines := bytes.Split(v.file.Text, []byte("\n"))
	if at := n.Line - 1; at >= 0 && at < len(lines) && bytes.Contains(lines[at], []byte("{{")) {
		what, remedy = what+": {{ is of a template", "render it first, such as with helm template"
	}
	v.problems = append(v.problems, &strict.Problem{File: v.file.Name, Line: max(n.Line, 1), Field: field, What: what, Remedy: remedy})
}

func (v *valuer) value(n *yaml.Node, path string) (value any, good bool) {
	at := n
	n = target(n)
	if v.count++; v.count > maxValues {
		if v.count == maxValues+1 {
			v.fail(at, path, "write less with aliases", "has more than %d values", maxValues)
		}
		return nil, false
	}
	if v.within[n] {
		v.fail(at, path, "write the value out", "the value contains itself")
		return nil, false
	}
	v.within[n] = true
	defer delete(v.within, n)
	switch n.Kind {
	case yaml.MappingNode:
		return v.mapping(n, path)
	case yaml.SequenceNode:
		list, good := []any{}, true
		for i, item := range n.Content {
			one, fine := v.value(item, strict.At(path, i))
			list, good = append(list, one), good && fine
		}
		return list, good
	}
	return v.scalar(n, path)
}

func (v *valuer) mapping(n *yaml.Node, path string) (value any, good bool) {
	content, lines, good := map[string]any{}, map[string]int{}, true
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		if target(key).Kind == yaml.ScalarNode && target(key).ShortTag() == "!!merge" {
			good = v.merge(content, item, strict.Join(path, "<<")) && good
			continue
		}
		name, fine := v.key(key, path)
		if !fine {
			good = false
			continue
		}
		field := strict.Join(path, name)
		if line, twice := lines[name]; twice {
			v.fail(key, field, "remove one of the two", "key %q already defined at line %d", name, line)
			good = false
			continue
		}
		lines[name] = key.Line
		one, fine := v.value(item, field)
		content[name], good = one, good && fine
	}
	return content, good
}

// merge adds the fields of the mappings that << names. Those of a list's first go before those of the others.
func (v *valuer) merge(content map[string]any, n *yaml.Node, path string) bool {
	sources := []*yaml.Node{n}
	if list := target(n); list.Kind == yaml.SequenceNode {
		sources = slices.Clone(list.Content)
		slices.Reverse(sources)
	}
	good := true
	for _, source := range sources {
		if target(source).Kind != yaml.MappingNode {
			v.fail(source, path, "name mappings", "want a mapping to merge, got %s", describe(target(source)))
			good = false
			continue
		}
		fields, fine := v.value(source, path)
		if good = good && fine; fine {
			maps.Copy(content, fields.(map[string]any)) // a mapping is one
		}
	}
	return good
}

// scalar is what kubectl makes of one; a text with placeholders stays a text.
func (v *valuer) scalar(n *yaml.Node, path string) (value any, good bool) {
	if strings.Contains(n.Value, "${") {
		return v.expanded(n)
	}
	text, plain := written(n)
	if !plain {
		return n.Value, true
	}
	if known, found := v.scalars[text]; found {
		return known, true
	}
	b, err := kubeyaml.YAMLToJSON([]byte("- " + text))
	var one []any
	if err == nil {
		err = utiljson.Unmarshal(b, &one)
	}
	switch {
	case err != nil:
		v.fail(n, path, "put it in quotes, where it is a text", "no value: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil, false
	case len(one) != 1:
		return n.Value, true
	}
	v.scalars[text] = one[0]
	return one[0], true
}

// key is a key's text.
func (v *valuer) key(n *yaml.Node, path string) (name string, good bool) {
	n = target(n)
	if n.Kind != yaml.ScalarNode {
		v.fail(n, path, "write a name", "want a name as key, got %s", describe(n))
		return "", false
	}
	if strings.Contains(n.Value, "${") {
		return v.expanded(n)
	}
	text, plain := written(n)
	if !plain {
		return n.Value, true
	}
	b, err := kubeyaml.YAMLToJSON([]byte("? " + text + "\n: 0\n"))
	var one map[string]int
	if err == nil {
		err = json.Unmarshal(b, &one)
	}
	if err != nil || len(one) != 1 {
		v.fail(n, path, "put it in quotes", "want a name as key, got %s", describe(n))
		return "", false
	}
	for name = range one {
	}
	return name, true
}

// expanded is a text with values in the place of its placeholders.
func (v *valuer) expanded(n *yaml.Node) (text string, good bool) {
	text, bad := expand(n.Value, v.values)
	if bad != "" {
		v.reader.fail(v.file.Name, n.Line, "correct the name, or write $${ for a ${ of the driver's own", "placeholder %s: want one of ${%s}", bad,
			strings.Join(slices.Sorted(maps.Keys(v.values)), "} ${"))
	}
	return text, bad == ""
}

// written is a scalar as it can be read by itself; plain is false for what is in quotes or a block, and with that a text.
func written(n *yaml.Node) (text string, plain bool) {
	if n.Style&yaml.TaggedStyle != 0 {
		b, err := json.Marshal(n.Value)
		return n.Tag + " " + string(b), err == nil
	}
	quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	return n.Value, !quoted && !strings.Contains(n.Value, "\n")
}

// describe names what a node is, for messages.
func describe(n *yaml.Node) string {
	switch {
	case n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "nothing"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(n.Value)
}
