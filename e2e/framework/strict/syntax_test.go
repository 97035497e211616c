package strict

import (
	"strings"
	"testing"
)

// TestSyntaxLines holds the lines of broken texts to where they are broken, whichever part of the YAML library says so.
func TestSyntaxLines(t *testing.T) {
	const quotes = `(remedy: put texts with ${...} in quotes inside [ ] and { }`
	for text, want := range map[string]string{
		"a: 1\nb: 2\nc: [./mine, --e=${E}, x]\nd: 1\n":      ":3: not YAML: did not find expected ',' or ']' " + quotes,
		"a: [./mine, --e=${E}, x]\nd: 1\n":                  ":1: not YAML: did not find expected ',' or ']' " + quotes,
		"a: 1\nb: {A: ${E}, x: 1}\nd: 1\n":                  ":2: not YAML: did not find expected ',' or '}' " + quotes,
		"a: 1\nc: [\n  ./mine,\n  --e=${E},\n  x]\nd: 1\n":  ":4: not YAML: did not find expected ',' or ']' in the block that begins on line 2 " + quotes,
		"a: 1\nc: [\"--e=${E}\" x]\nd: 1\n":                 ":2: not YAML: did not find expected ',' or ']' (remedy: correct the syntax)",
		"- a: 1\n  c: [x, --e=${E}]\n":                      ":2: not YAML: did not find expected ',' or ']' " + quotes,
		"a: 1\nx: {b: 1,\n  \"c\", [--e=${E}, y]}\n":        ":3: not YAML: did not find expected ',' or ']' in the block that begins on line 3 " + quotes,
		"a: 1\nb: [a, b\nc: 1\n":                            ":3: not YAML: did not find expected ',' or ']' in the block that begins on line 2",
		"a: 1\nb: [a, b\n":                                  ":2: not YAML: did not find expected ',' or ']' (remedy",
		"a: 1\nb:\n  c: 1\n  d:\n  - x\n - y\ne: 1\n":       ":6: not YAML: did not find expected key in the block that begins on line 1",
		"# of\n\na: 1\nb:\n- x: 1\n  y: 2\n   z: 3\nc: 1\n": ":7: not YAML: mapping values are not allowed in this context",
		"# of\n\na: 1\nb:\n- x: 1\n  y: 2\n z: 3\nc: 1\n":   ":7: not YAML: did not find expected key in the block that begins on line 3",
		"a: 1\nb:\n  - x\n  - y\n  c: 1\ne: 1\n":            ":5: not YAML: did not find expected '-' indicator in the block that begins on line 3",
		"a:\n  b: 1\n c: 2\n":                               ":3: not YAML: did not find expected key in the block that begins on line 1",
		"a: 1\nb: \"x\" y\nc: 1\n":                          ":2: not YAML: did not find expected key in the block that begins on line 1",
		"a: 1\n- b\n":                                       ":2: not YAML: did not find expected key in the block that begins on line 1",
		"a: 1\nb: ]\n":                                      ":2: not YAML: did not find expected node content",
		"a: 1\nb: !e!x y\n":                                 ":2: not YAML: found undefined tag handle",
		"# of\n%YAML 2.0\n---\na: 1\n":                      ":2: not YAML: found incompatible YAML document",
		"a: 1\nb:\n\t- x\n":                                 ":3: not YAML: found character that cannot start any token",
		"a: 1\nb: @x\n":                                     ":2: not YAML: found character that cannot start any token",
		"a: 1\nb: \"x\nc: 1\nd: 2\n":                        ":2: not YAML: the quoted text that begins here does not end (remedy: close it",
		"b: 'x\nc: 1\nd: 2\n":                               ":1: not YAML: the quoted text that begins here does not end",
		"a: 1\nb c\nd: 2\n":                                 ":2: not YAML: could not find expected ':'",
		"a: 1\nb: c: d\ne: 1\n":                             ":2: not YAML: mapping values are not allowed in this context",
		"a: 1\n  b: 2\n":                                    ":2: not YAML: mapping values are not allowed in this context",
		"a: 1\nb: \"\\q\"\n":                                ":2: not YAML: found unknown escape character",
		"a: 1\nb: |x\n  y\n":                                ":2: not YAML: did not find expected comment or line break",
		"a: 1\nb: 2\nc: *x\nd: 1\n":                         ":3: not YAML: unknown anchor 'x' referenced",
		"a: 1\nb: 2\nc: x\x01y\nd: 1\n":                     ":3: not YAML: control characters are not allowed",
		"a: 1\nb: x\xffy\nc: 1\n":                           ":2: not YAML: invalid leading UTF-8 octet",
		"{{- if .Values.x }}\na: 1\n{{- end }}\n":           ":1: not YAML: did not find expected node content; line 1 has {{, as a template does (remedy: render it first",
		"a: 1\nb: {{ .Values.x }}\n{{- end }}\n":            ":3: not YAML: could not find expected ':'; line 2 has {{, as a template does (remedy: render it first",
		"a: '{{x}}' # {{\nb: [\n":                           ":2: not YAML: did not find expected node content (remedy: correct the syntax)",
	} {
		var f form
		if err := Decode("f.yaml", []byte(text), &f).Err(); err == nil || !strings.Contains(err.Error(), "f.yaml"+want) {
			t.Errorf("%q:\nwant %s\ngot  %v", text, want, err)
		}
	}
}
