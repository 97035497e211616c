// Package strict decodes the YAML files that people write for Headroom into plain Go values, and says exactly what is wrong with them.
//
// Contract: every field of a struct is required unless its yaml tag says omitempty, and texts are not empty unless its strict tag says empty; unknown fields, duplicate keys, anchors, further documents and
// values of another kind are problems. A problem names file, line, field and remedy. All problems of a file are found in one reading, and checks of
// the caller's own are added to them with Fail, by the field's path alone.
//
// It knows no format: what fields mean is for the packages whose types it fills. It does not write YAML.
package strict

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File string
	Line int
	// Field is a path such as "kubernetes[2].etcd"; "" means the file as a whole.
	Field string
	// What is wrong: want, got.
	What string
	// Remedy is what to do about it; "" where What says that already.
	Remedy string
}

func (p *Problem) Error() string {
	s := fmt.Sprintf("%s:%d: ", p.File, p.Line)
	if p.Field != "" {
		s += p.Field + ": "
	}
	s += p.What
	if p.Remedy != "" {
		s += " (remedy: " + p.Remedy + ")"
	}
	return s
}

// File is a file being decoded: the lines of its fields and the problems found so far.
type File struct {
	name     string
	lines    map[string]int // by path
	problems []*Problem
}

// Decode reads the only document in data into the struct that into points at. name is for messages only. What was decoded is sound only where Err
// of the result is nil.
func Decode(name string, data []byte, into any) *File {
	f := &File{name: name, lines: map[string]int{}}
	in := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := in.Decode(&doc); errors.Is(err, io.EOF) {
		f.fail(1, "", "write it, or remove the file", "the file is empty")
		return f
	} else if err != nil {
		f.syntax(data, err)
		return f
	}
	if err := in.Decode(&more); err == nil {
		f.fail(more.Line, "", "put the second into a file of its own", "want one document, got a second")
	} else if !errors.Is(err, io.EOF) {
		f.syntax(data, err)
	}
	f.value(doc.Content[0], "", reflect.ValueOf(into).Elem(), false)
	return f
}

// syntax notes what the YAML library says of the file's text.
func (f *File) syntax(data []byte, err error) {
	line, text, remedy := Syntax(data, err)
	f.fail(line, "", remedy, "not YAML: %s", text)
}

// Decode reads a node that was kept as it is into the struct that into points at; path is the node's own. It reports whether that went well.
func (f *File) Decode(path string, n *yaml.Node, into any) bool {
	before := len(f.problems)
	f.value(n, path, reflect.ValueOf(into).Elem(), false)
	return len(f.problems) == before
}

// Fail adds a problem of a field; a field without a line of its own takes its parent's.
func (f *File) Fail(field, remedy, format string, args ...any) {
	f.fail(f.Line(field), field, remedy, format, args...)
}

// Identity wants the apiVersion and the kind of a file that the reader takes. other says what to name instead, where the file is of another kind.
func (f *File) Identity(apiVersion, wantAPIVersion, kind, wantKind, other string) {
	for _, head := range []struct{ field, want, got string }{{"apiVersion", wantAPIVersion, apiVersion}, {"kind", wantKind, kind}} {
		if head.got != head.want {
			f.Fail(head.field, "write "+head.want+", or name "+other, "want %q, got %q", head.want, head.got)
		}
	}
}

func (f *File) fail(line int, field, remedy, format string, args ...any) {
	f.problems = append(f.problems, &Problem{File: f.name, Line: max(line, 1), Field: field, What: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Line is the line of a field, or of the nearest field around it.
func (f *File) Line(path string) int {
	for ; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if line, found := f.lines[path]; found {
			return line
		}
	}
	return 1
}

// Has says whether the file gives a field.
func (f *File) Has(path string) bool {
	_, found := f.lines[path]
	return found
}

// Problems are those found so far, by line.
func (f *File) Problems() []*Problem {
	slices.SortStableFunc(f.problems, func(a, b *Problem) int { return a.Line - b.Line })
	return f.problems
}

// Err joins the problems found so far, by line; nil when there are none.
func (f *File) Err() error {
	var errs []error
	for _, p := range f.Problems() {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// At is the path of a list's item.
func At(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// Join is the path of a mapping's field.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// textual is a type that reads itself from text, such as a duration.
var textual = reflect.TypeFor[encoding.TextUnmarshaler]()
