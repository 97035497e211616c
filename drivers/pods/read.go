// Package pods turns a driver author's manifests into the objects that run the driver under Headroom's eyes.
//
// Contract: pure functions. Read takes texts and gives objects; Check says what in them does not fit what a definition says; Render gives the objects to
// apply for one driver of a run, with the sidecars gone that Headroom has its own of. Whatever is wrong with a manifest is told by file and line. Nothing is
// applied here, and no image is pulled.
package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"headroom/e2e/framework/strict"
)

// File is a manifest as it is written.
type File struct {
	// Name is for messages.
	Name string
	Text []byte
}

// Object is an object of a manifest.
type Object struct {
	*unstructured.Unstructured
	// File and Line are where it is written.
	File string
	Line int
}

// String is the object as messages name it.
func (o Object) String() string { return o.GetKind() + "/" + o.GetName() }

// Problem is one thing that is wrong with the object.
func (o Object) Problem(field, remedy, format string, args ...any) error {
	return &strict.Problem{File: o.File, Line: o.Line, Field: field, What: fmt.Sprintf("%s: %s", o, fmt.Sprintf(format, args...)), Remedy: remedy}
}

// Placeholders are what ${NAME} may be in a manifest.
var Placeholders = []string{
	"BACKEND", "CACHE_AGE", "DRIVER_NAME", "LAST_GOOD_LIFE", "MIN_INTERVAL", "NAMESPACE", "SEED", "STATE_DIR", "STEP", "STEP_INTERVAL",
}

// AsWritten are values that leave every placeholder as it is.
func AsWritten() map[string]string {
	values := map[string]string{}
	for _, name := range Placeholders {
		values[name] = "${" + name + "}"
	}
	return values
}

// Read reads manifests of several documents each, and puts values in the place of their placeholders; $${ is a ${ that stays. The error lists all that is
// wrong.
func Read(files []File, values map[string]string) ([]Object, error) {
	r := reader{values: values, first: map[string]Object{}, lists: map[*yaml.Node]bool{}, scalars: map[string]any{}}
	for _, f := range files {
		r.file(f)
	}
	return r.objects, errors.Join(r.problems...)
}

// reader collects objects and what is wrong with them.
type reader struct {
	values   map[string]string
	objects  []Object
	problems []error
	// first are the objects by what no two of them may share.
	first map[string]Object
	// lists are the items of the Lists that are being read.
	lists map[*yaml.Node]bool
	// scalars are values by how they are written.
	scalars map[string]any
}

func (r *reader) fail(file string, line int, remedy, format string, args ...any) {
	r.problems = append(r.problems, &strict.Problem{File: file, Line: max(line, 1), What: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (r *reader) file(f File) {
	in := yaml.NewDecoder(bytes.NewReader(f.Text))
	before := len(r.objects) + len(r.problems)
	for {
		var doc yaml.Node
		err := in.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line, text, remedy := strict.Syntax(f.Text, err)
			r.fail(f.Name, line, remedy, "not YAML: %s", text)
			break // what follows cannot be told apart
		}
		r.document(f, doc.Content[0], false)
	}
	if len(r.objects)+len(r.problems) == before {
		r.fail(f.Name, 1, "write it, or take it out of pods.manifests", "has no object")
	}
}

// document takes one document, or an item of a List.
func (r *reader) document(f File, n *yaml.Node, listed bool) {
	n = target(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" && !listed {
		return // a document of comments
	}
	if n.Kind != yaml.MappingNode {
		r.fail(f.Name, n.Line, "write apiVersion, kind and metadata", "want an object")
		return
	}
	if text(n, "kind") == "List" {
		r.list(f, n)
		return
	}
	o := Object{File: f.Name, Line: n.Line}
	name := text(n, "kind") + "/"
	if m := item(n, "metadata"); m != nil {
		name += text(m, "name")
	}
	v := valuer{reader: r, file: f, object: name, within: map[*yaml.Node]bool{}}
	content, good := v.value(n, "")
	if !good {
		return
	}
	o.Unstructured = &unstructured.Unstructured{Object: content.(map[string]any)} // n is a mapping
	b, err := json.Marshal(o.Object)
	if err == nil {
		err = o.check(b)
	}
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	id := o.GetKind() + "/" + o.GetName()
	if other, twice := r.first[id]; twice {
		r.problems = append(r.problems, o.Problem("", "take one of them out, or give it another name: all go into one namespace", "is there twice, first in %s:%d", other.File, other.Line))
		return
	}
	r.first[id] = o
	r.objects = append(r.objects, o)
}

// list takes the objects of a List. One without any is what kubectl get writes where it finds nothing: it leaves nothing out.
func (r *reader) list(f File, n *yaml.Node) {
	line := n.Line
	items := item(n, "items")
	first := 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "items" {
			continue
		}
		if line = n.Content[i].Line; first > 0 {
			r.problems = append(r.problems, &strict.Problem{File: f.Name, Line: line, Field: "items", What: fmt.Sprintf("List: key \"items\" already defined at line %d", first),
				Remedy: "remove one of the two"})
			return
		}
		first = line
	}
	if items == nil || items.Kind != yaml.SequenceNode {
		r.problems = append(r.problems, &strict.Problem{File: f.Name, Line: line, Field: "items", What: "List: want a list of objects, got " + describe(items),
			Remedy: "write its objects below it, each behind \"- \""})
		return
	}
	if r.lists[items] {
		r.fail(f.Name, line, "write the objects out", "items: the list contains itself")
		return
	}
	r.lists[items] = true
	for _, i := range items.Content {
		r.document(f, i, true)
	}
	delete(r.lists, items)
}

// target is what an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// item is the value of a mapping's key; nil when there is none.
func item(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == key {
			return target(n.Content[i+1])
		}
	}
	return nil
}

func text(n *yaml.Node, key string) string {
	if v := item(n, key); v != nil {
		return v.Value
	}
	return ""
}

// expand is text with values; bad is a placeholder that means nothing.
func expand(text string, values map[string]string) (out, bad string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), ""
		}
		if kept, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(kept + "${")
			text = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		value, known := values[name]
		if !closed || !known {
			if closed {
				name += "}"
			}
			return "", "${" + name
		}
		b.WriteString(before + value)
		text = after
	}
}

// decoder reads objects as strictly as an API server that is asked to.
var decoder = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// check says what is wrong with an object by itself; b is its text.
func (o Object) check(b []byte) error {
	if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
		return o.Problem("", "write all three", "want apiVersion, kind and metadata.name, got %q, %q and %q", o.GetAPIVersion(), o.GetKind(), o.GetName())
	}
	k, known := kinds[o.GetKind()]
	if !known {
		return o.Problem("kind", "take it out of pods.manifests", "want one of %s: a driver's run needs no other", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if want := k.GroupVersion().String(); o.GetAPIVersion() != want {
		return o.Problem("apiVersion", "write "+want, "want %s, got %q", want, o.GetAPIVersion())
	}
	_, _, err := decoder.Decode(b, nil, nil)
	switch {
	case err != nil && holds(o.Object, "{{"):
		return o.Problem("", "render it first, such as with helm template, or correct it", "%v; it has {{, as a template does", err)
	case err != nil:
		return o.Problem("", "correct it", "%v", err)
	}
	return nil
}
