package scenario

import (
	"encoding"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/strict"
)

var update = flag.Bool("update", false, "write docs/scenario.schema.json anew")

const schemaFile = "../../../docs/scenario.schema.json"

// TestSchema holds docs/scenario.schema.json, which editors use, to the types that Load fills.
func TestSchema(t *testing.T) {
	g := generator{docs: fieldDocs(t), defs: map[string]any{}}
	schema := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Headroom scenario", "$ref": g.ref(reflect.TypeFor[Scenario]()), "$defs": g.defs,
	}
	got, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil || string(want) != string(got) {
		t.Errorf("docs/scenario.schema.json is not what the types say (%v): run go test ./e2e/framework/scenario -run TestSchema -update", err)
	}
}

// fieldDocs are the comments of all fields, by type and field.
func fieldDocs(t *testing.T) map[string]string {
	docs := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
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
	return docs
}

// generator makes a JSON schema of Go types.
type generator struct {
	docs map[string]string
	defs map[string]any
}

// choices are the types of which only some texts are values.
var choices = map[reflect.Type]any{
	reflect.TypeFor[Action](): Actions, reflect.TypeFor[PodState](): PodStates, reflect.TypeFor[ProcessState](): []ProcessState{Up, Exited},
}

func (g *generator) schema(t reflect.Type) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return g.schema(t.Elem())
	case choices[t] != nil:
		return map[string]any{"enum": choices[t]}
	case t == reflect.TypeFor[history.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`}
	case t == reflect.TypeFor[Count]():
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 0}, map[string]any{"enum": []string{"absent", "no-entry"}}}}
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
