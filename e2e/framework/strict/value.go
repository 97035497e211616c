package strict

import (
	"encoding"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/history"
)

// raw is kept as it is, to be decoded once it is known what it must be.
var raw = reflect.TypeFor[yaml.Node]()

// value fills into; empty says that an empty text is one.
func (f *File) value(n *yaml.Node, path string, into reflect.Value, empty bool) {
	if path != "" {
		if _, known := f.lines[path]; !known {
			f.lines[path] = n.Line
		}
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		f.fail(n.Line, path, "write the value out", "anchors and aliases are not supported")
		return
	}
	switch {
	case into.Type() == raw:
		f.keep(n, path, into)
	case into.Kind() == reflect.Pointer:
		v := reflect.New(into.Type().Elem())
		f.value(n, path, v.Elem(), empty)
		into.Set(v)
	case into.Addr().Type().Implements(textual):
		f.text(n, path, into)
	case into.Kind() == reflect.Struct:
		f.fields(n, path, into)
	case into.Kind() == reflect.Map:
		f.entries(n, path, into, empty)
	case into.Kind() == reflect.Slice:
		f.items(n, path, into, empty)
	default:
		f.scalar(n, path, into, empty)
	}
}

// keep takes a node over after looking for what is wrong with YAML of any meaning.
func (f *File) keep(n *yaml.Node, path string, into reflect.Value) {
	before := len(f.problems)
	f.walk(n, path)
	if len(f.problems) == before {
		into.Set(reflect.ValueOf(*n))
	}
}

func (f *File) walk(n *yaml.Node, path string) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		f.fail(n.Line, path, "write the value out", "anchors and aliases are not supported")
	case n.Kind == yaml.MappingNode:
		f.keys(n, path, func(_, at string, value *yaml.Node) { f.walk(value, at) })
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			f.walk(item, At(path, i))
		}
	}
}

func (f *File) items(n *yaml.Node, path string, into reflect.Value, empty bool) {
	if n.Kind != yaml.SequenceNode {
		f.fail(n.Line, path, "write its items below it, each behind \"- \"", "want a list, got %s", describe(n))
		return
	}
	for i, item := range n.Content {
		v := reflect.New(into.Type().Elem()).Elem()
		f.value(item, At(path, i), v, empty)
		into.Set(reflect.Append(into, v))
	}
}

// text lets a type read itself. Of durations it says which mistake it is, since it is made so often.
func (f *File) text(n *yaml.Node, path string, into reflect.Value) {
	_, isDuration := into.Interface().(history.Duration)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		f.fail(n.Line, path, "write one value", "want a value, got %s", describe(n))
		return
	}
	if _, err := strconv.ParseFloat(n.Value, 64); isDuration && err == nil {
		f.fail(n.Line, path, "write the unit, such as "+n.Value+"s", "%s has no unit", n.Value)
		return
	}
	err := into.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.Value))
	switch {
	case isDuration && (err != nil || into.Int() < 0):
		f.fail(n.Line, path, "write a number with a unit, such as 10s or 1m30s", "want a duration, got %q", n.Value)
	case err != nil:
		f.fail(n.Line, path, "", "%v", err)
	}
}

func (f *File) scalar(n *yaml.Node, path string, into reflect.Value, empty bool) {
	kinds := map[reflect.Kind]string{
		reflect.String: "!!str", reflect.Bool: "!!bool", reflect.Int: "!!int", reflect.Int32: "!!int", reflect.Int64: "!!int", reflect.Uint32: "!!int",
	}
	want := kinds[into.Kind()]
	name := map[string]string{"!!str": "text", "!!bool": "true or false", "!!int": "a whole number"}[want]
	remedy := map[string]string{"!!str": "write text, in quotes where it looks like something else", "!!bool": "write true or false", "!!int": "write digits"}[want]
	none := n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value == "" && want == "!!str" && !empty
	if none {
		remedy = "write text, or remove it"
	}
	if n.Kind != yaml.ScalarNode || n.Tag != want || n.Decode(into.Addr().Interface()) != nil || none {
		f.fail(n.Line, path, remedy, "want %s, got %s", name, describe(n))
	}
}

// keys calls found for each key of a mapping, once.
func (f *File) keys(n *yaml.Node, path string, found func(key, path string, value *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := Join(path, key.Value)
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			f.fail(key.Line, path, "write a name", "want a name as key, got %s", describe(key))
			continue
		}
		if line, twice := first[key.Value]; twice {
			f.fail(key.Line, at, "remove one of the two", "duplicate key %q, first on line %d", key.Value, line)
			continue
		}
		first[key.Value] = key.Line
		f.lines[at] = key.Line
		found(key.Value, at, n.Content[i+1])
	}
}

// Field is how a struct's field is written.
type Field struct {
	Name     string
	Optional bool
	// Empty says that its texts may be empty: its strict tag is "empty".
	Empty bool
	Index int
}

// Fields are the fields of a struct type that are written, in order.
func Fields(t reflect.Type) []Field {
	var fields []Field
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
			fields = append(fields, Field{Name: name, Optional: options == "omitempty", Empty: t.Field(i).Tag.Get("strict") == "empty", Index: i})
		}
	}
	return fields
}

func (f *File) fields(n *yaml.Node, path string, into reflect.Value) {
	if !f.mapping(n, path) {
		return
	}
	fields := map[string]Field{}
	var names []string
	for _, field := range Fields(into.Type()) {
		fields[field.Name] = field
		names = append(names, field.Name)
	}
	seen := map[string]bool{}
	f.keys(n, path, func(key, at string, value *yaml.Node) {
		field, ok := fields[key]
		if !ok {
			f.fail(f.lines[at], at, "correct its name, or remove it", "unknown field %q; known: %s", key, strings.Join(names, ", "))
			return
		}
		seen[key] = true
		f.value(value, at, into.Field(field.Index), field.Empty)
	})
	for _, field := range Fields(into.Type()) {
		if !field.Optional && !seen[field.Name] {
			f.fail(n.Line, path, "add it", "field %q is missing", field.Name)
		}
	}
}

func (f *File) entries(n *yaml.Node, path string, into reflect.Value, empty bool) {
	if !f.mapping(n, path) {
		return
	}
	into.Set(reflect.MakeMap(into.Type()))
	f.keys(n, path, func(key, at string, value *yaml.Node) {
		v := reflect.New(into.Type().Elem()).Elem()
		f.value(value, at, v, empty)
		into.SetMapIndex(reflect.ValueOf(key).Convert(into.Type().Key()), v)
	})
}

func (f *File) mapping(n *yaml.Node, path string) bool {
	if n.Kind == yaml.MappingNode {
		return true
	}
	f.fail(n.Line, path, "write it as key: value lines", "want a mapping of fields, got %s", describe(n))
	return false
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
