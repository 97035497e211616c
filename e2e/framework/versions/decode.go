package versions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder fills plain Go values (structs with yaml tags, slices, maps by string, scalars) from YAML and knows the line of every field. The
// yaml package's own strictness does not name the field of a wrong value, and accepts fields that are missing.
type decoder struct {
	file  string
	lines map[string]int // by path, such as "kubernetes[2].etcd"
	errs  []error
}

// fail records an error at a field; a path without a line of its own takes its parent's.
func (d *decoder) fail(path, format string, args ...any) {
	line, found := 1, false
	for p := path; p != "" && !found; {
		if line, found = d.lines[p]; !found {
			p = p[:max(strings.LastIndexAny(p, ".["), 0)]
		}
	}
	d.failAt(max(line, 1), path, format, args...)
}

func (d *decoder) failAt(line int, path, format string, args ...any) {
	at := fmt.Sprintf("%s:%d: ", d.file, line)
	if path != "" {
		at += path + ": "
	}
	d.errs = append(d.errs, fmt.Errorf(at+format, args...))
}

func (d *decoder) document(data []byte, into any) {
	in := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := in.Decode(&doc); errors.Is(err, io.EOF) {
		d.failAt(1, "", "the file is empty")
		return
	} else if err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s: %w", d.file, err)) // Syntax; the text has the line.
		return
	}
	if err := in.Decode(&more); err == nil {
		d.failAt(more.Line, "", "want one document, got a second")
	} else if !errors.Is(err, io.EOF) {
		d.errs = append(d.errs, fmt.Errorf("%s: %w", d.file, err))
	}
	d.value(doc.Content[0], "", reflect.ValueOf(into).Elem())
}

func (d *decoder) value(n *yaml.Node, path string, into reflect.Value) {
	d.lines[path] = n.Line
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.failAt(n.Line, path, "anchors and aliases are not supported; write the value out")
		return
	}
	want := map[reflect.Kind]yaml.Kind{reflect.Struct: yaml.MappingNode, reflect.Map: yaml.MappingNode, reflect.Slice: yaml.SequenceNode}[into.Kind()]
	switch {
	case want == yaml.MappingNode && n.Kind != want:
		d.failAt(n.Line, path, "want a mapping of fields")
	case want == yaml.SequenceNode && n.Kind != want:
		d.failAt(n.Line, path, "want a list")
	case into.Kind() == reflect.Struct:
		d.fields(n, path, into)
	case into.Kind() == reflect.Map:
		d.entries(n, path, into)
	case into.Kind() == reflect.Slice:
		for i, item := range n.Content {
			v := reflect.New(into.Type().Elem()).Elem()
			d.value(item, fmt.Sprintf("%s[%d]", path, i), v)
			into.Set(reflect.Append(into, v))
		}
	default:
		d.scalar(n, path, into)
	}
}

func (d *decoder) scalar(n *yaml.Node, path string, into reflect.Value) {
	want := map[reflect.Kind]string{reflect.String: "!!str", reflect.Bool: "!!bool", reflect.Int: "!!int"}[into.Kind()]
	name := map[string]string{"!!str": "text", "!!bool": "true or false", "!!int": "a whole number"}[want]
	switch {
	case n.Kind != yaml.ScalarNode:
		d.failAt(n.Line, path, "want %s, got a mapping or a list", name)
	case n.Tag != want:
		d.failAt(n.Line, path, "want %s, got %q", name, n.Value)
	default:
		if err := n.Decode(into.Addr().Interface()); err != nil {
			d.failAt(n.Line, path, "want %s, got %q", name, n.Value)
		}
	}
}

// keys calls found for each key of a mapping, once.
func (d *decoder) keys(n *yaml.Node, path string, found func(key, path string, value *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := key.Value
		if path != "" {
			at = path + "." + at
		}
		if line, twice := first[key.Value]; twice {
			d.failAt(key.Line, at, "duplicate key %q, first on line %d", key.Value, line)
			continue
		}
		first[key.Value] = key.Line
		found(key.Value, at, n.Content[i+1])
		d.lines[at] = key.Line
	}
}

func (d *decoder) fields(n *yaml.Node, path string, into reflect.Value) {
	fields, names := map[string]reflect.Value{}, []string{}
	for i := range into.NumField() {
		name := into.Type().Field(i).Tag.Get("yaml")
		fields[name], names = into.Field(i), append(names, name)
	}
	seen := map[string]bool{}
	d.keys(n, path, func(key, at string, value *yaml.Node) {
		f, ok := fields[key]
		if !ok {
			d.failAt(value.Line, at, "unknown field %q; known: %s", key, strings.Join(names, ", "))
			return
		}
		seen[key] = true
		d.value(value, at, f)
	})
	for _, name := range names {
		if !seen[name] {
			d.failAt(n.Line, path, "field %q is missing", name)
		}
	}
}

func (d *decoder) entries(n *yaml.Node, path string, into reflect.Value) {
	into.Set(reflect.MakeMap(into.Type()))
	d.keys(n, path, func(key, at string, value *yaml.Node) {
		v := reflect.New(into.Type().Elem()).Elem()
		d.value(value, at, v)
		into.SetMapIndex(reflect.ValueOf(key), v)
	})
}
