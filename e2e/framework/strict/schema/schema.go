// Package schema writes JSON schemas of the Go types that package strict fills, for editors and for people.
//
// Contract: what a schema says of a field is what strict.Decode does with it: unknown fields are refused, fields without omitempty are required, a
// field's comment is its description. Rules that a format's own checks add are not in it.
package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/strict"
)

// Options say what the types do not.
type Options struct {
	// Title is what the schema calls the format.
	Title string
	// Dir holds the Go files that the descriptions come from.
	Dir string
	// Special are schemas of types that are not what their kind says, such as those of which only some texts are values.
	Special map[reflect.Type]map[string]any
}

// Of is the schema of a file that is decoded into a root, ending in a line feed.
func Of(root reflect.Type, o Options) ([]byte, error) {
	docs, err := fieldDocs(o.Dir)
	if err != nil {
		return nil, err
	}
	g := generator{docs: docs, defs: map[string]any{}, special: o.Special}
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": o.Title, "$ref": g.ref(root), "$defs": g.defs,
	}, "", "  ")
	return append(text, '\n'), err
}

// fieldDocs are the comments of all struct fields in a folder's Go files, by type and field.
func fieldDocs(dir string) (map[string]string, error) {
	docs := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("schema: want Go files in %q, got none (error: %w)", dir, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						docs[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
					}
				}
			}
			return true
		})
	}
	return docs, nil
}

// generator makes a JSON schema of Go types.
type generator struct {
	docs    map[string]string
	defs    map[string]any
	special map[reflect.Type]map[string]any
}

func (g *generator) schema(t reflect.Type) map[string]any {
	if s, ok := g.special[t]; ok {
		own := map[string]any{} // a description may be added to it
		for k, v := range s {
			own[k] = v
		}
		return own
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return g.schema(t.Elem())
	case t == reflect.TypeFor[history.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`}
	case t == reflect.TypeFor[yaml.Node]():
		return map[string]any{"type": "object"}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": g.schema(t.Elem())}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.schema(t.Elem())}
	case t.Kind() == reflect.Struct:
		return map[string]any{"$ref": g.ref(t)}
	}
	return map[string]any{"type": "integer"}
}

func (g *generator) ref(t reflect.Type) string {
	ref := "#/$defs/" + t.Name()
	if _, known := g.defs[t.Name()]; known {
		return ref
	}
	g.defs[t.Name()] = nil // types may refer to each other
	properties, required := map[string]any{}, []string{}
	for _, f := range strict.Fields(t) {
		s := g.schema(t.Field(f.Index).Type)
		if doc := g.docs[t.Name()+"."+t.Field(f.Index).Name]; doc != "" {
			s["description"] = doc
		}
		properties[f.Name] = s
		if !f.Optional {
			required = append(required, f.Name)
		}
	}
	g.defs[t.Name()] = map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
	return ref
}
