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
	utiljson "k8s.io/apimachinery/pkg/util/json"
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
	r := reader{values: values, first: map[string]Object{}}
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
		r.document(f.Name, doc.Content[0])
	}
	if len(r.objects)+len(r.problems) == before {
		r.fail(f.Name, 1, "write it, or take it out of pods.manifests", "has no object")
	}
}

// document takes one document, or an item of a List.
func (r *reader) document(file string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // a document of comments
	}
	if n.Kind != yaml.MappingNode {
		r.fail(file, n.Line, "write apiVersion, kind and metadata", "want an object")
		return
	}
	if items := item(n, "items"); items != nil && text(n, "kind") == "List" {
		for _, i := range items.Content {
			r.document(file, i)
		}
		return
	}
	if !r.expand(file, n) {
		return
	}
	var plain any
	content := map[string]any{}
	err := n.Decode(&plain)
	var b []byte
	if err == nil {
		b, err = json.Marshal(plain)
	}
	if err == nil {
		err = utiljson.Unmarshal(b, &content)
	}
	if err != nil {
		line, text, _ := strict.Syntax(nil, err)
		r.fail(file, max(line, n.Line), "correct it", "%s", text)
		return
	}
	o := Object{&unstructured.Unstructured{Object: content}, file, n.Line}
	if err := o.check(b); err != nil {
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

// item is the value of a mapping's key; nil when there is none.
func item(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
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

// expand replaces the placeholders in all texts below a node; what it replaces stays a text.
func (r *reader) expand(file string, n *yaml.Node) bool {
	good := true
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${") {
		value, bad := expand(n.Value, r.values)
		if bad != "" {
			r.fail(file, n.Line, "correct the name, or write $${ for a ${ of the driver's own", "placeholder %s: want one of ${%s}", bad,
				strings.Join(slices.Sorted(maps.Keys(r.values)), "} ${"))
			return false
		}
		n.Value, n.Tag = value, "!!str"
	}
	for _, child := range n.Content {
		good = r.expand(file, child) && good
	}
	return good
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
	if _, _, err := decoder.Decode(b, nil, nil); err != nil {
		return o.Problem("", "correct it", "%v", err)
	}
	return nil
}
