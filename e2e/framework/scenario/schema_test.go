package scenario

import (
	"flag"
	"os"
	"reflect"
	"testing"

	"headroom/e2e/framework/strict/schema"
)

var update = flag.Bool("update", false, "write docs/scenario.schema.json anew")

const schemaFile = "../../../docs/scenario.schema.json"

// TestSchema holds docs/scenario.schema.json, which editors use, to the types that Load fills.
func TestSchema(t *testing.T) {
	got, err := schema.Of(reflect.TypeFor[Scenario](), schema.Options{Title: "Headroom scenario", Dir: ".", Special: map[reflect.Type]map[string]any{
		reflect.TypeFor[Action]():       {"enum": Actions},
		reflect.TypeFor[PodState]():     {"enum": PodStates},
		reflect.TypeFor[ProcessState](): {"enum": []ProcessState{Up, Exited}},
		reflect.TypeFor[Count](): {
			"anyOf": []any{map[string]any{"type": "integer", "minimum": 0}, map[string]any{"enum": []string{"absent", "no-entry"}}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
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
