package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kubeyaml "sigs.k8s.io/yaml"
)

// TestValuesAreKubectls holds what a manifest's values mean to what kubectl makes of them.
func TestValuesAreKubectls(t *testing.T) {
	var many strings.Builder
	for i, value := range []string{
		"text", `"1"`, "'true'", "1", "-1", "+1", "1_000", "0644", "0o644", "0x1F", "0b11", "12345678901234567890", "9223372036854775807", "-9223372036854775809",
		"123456789012345678901234567890", "1.5", "1e3", "1E3", "1.0", ".5", "1.", "190:20:30", "1:30", "true", "True", "TRUE", "tRUE", "yes", "Yes", "on", "off", "no", "y", "n", "~", "null", "Null", "",
		"2001-01-01", "2001-01-01T00:00:00Z", "2001-12-14 21:59:43.10 -5", `"2001-01-01"`, "!!str 1", "!!str 2001-01-01", "!!int 0644", `!!int "7"`, "!!float 1", "!!binary aGk=", "!!timestamp 2001-01-01",
		"!mine x", "a - b", "a:b", "a#b", "|\n  yes\n  1", ">\n  1\n  2", "a\n  b", "[]", "{}", "[1, yes, 2001-01-01]", "{1: a, yes: b, 2001-01-01: c, 1.5: d, 0x10: e, !!str 2: f}", "- 1\n  - x", "---x", "=", "<<", `"\u00e9\t"`,
	} {
		key := "k" + fmt.Sprint(i)
		text := key + ": " + value + "\n"
		if strings.HasPrefix(value, "- ") {
			text = key + ":\n  " + value + "\n"
		}
		many.WriteString(text)
		same(t, text)
	}
	same(t, many.String())
	for _, text := range []string{
		"a: &a {x: 1, y: yes}\nb: *a\n", "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3, z: 4}\n", "a: &a {x: 1}\nb: {x: 2, <<: *a}\n",
		"a: &a {x: 1}\nc: &c {x: 2, y: 3}\nb: {<<: [*a, *c], z: 4}\n", "b: {<<: {x: 1}}\n", "b: {'<<': {x: 1}}\n", "a: &a 2001-01-01\nb: *a\n", "a: &a k\nb: {*a : 1}\n", "? a\n: 1\n", "? 1\n: - x\n",
	} {
		same(t, text)
	}
}

// same compares what is made of a field of an object with what kubectl makes of it.
func same(t *testing.T, text string) {
	t.Helper()
	text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\nspec:\n  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
	b, err := kubeyaml.YAMLToJSON([]byte(text))
	var want map[string]any
	if err == nil {
		err = utiljson.Unmarshal(b, &want)
	}
	if err != nil {
		t.Fatalf("%s\nkubectl: %v", text, err)
	}
	got, err := valuesOf(t, text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nwant %s\ngot  %s, %v", text, b, asJSON(got), err)
	}
}

// valuesOf are the values of a text's only document.
func valuesOf(t *testing.T, text string) (any, error) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	r := reader{scalars: map[string]any{}}
	v := valuer{reader: &r, file: File{"m.yaml", []byte(text)}, object: "ConfigMap/m", within: map[*yaml.Node]bool{}}
	value, _ := v.value(doc.Content[0], "") // what is not good is a problem
	return value, errors.Join(r.problems...)
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	return fmt.Sprint(string(b), err)
}
