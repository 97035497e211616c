package strict

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/history"
)

type form struct {
	Name  string                      `yaml:"name"`
	On    bool                        `yaml:"on,omitempty"`
	N     *int32                      `yaml:"n,omitempty"`
	Every history.Duration            `yaml:"every,omitempty"`
	List  []item                      `yaml:"list,omitempty"`
	Map   map[string]history.Duration `yaml:"map,omitempty"`
	Raw   yaml.Node                   `yaml:"raw,omitempty"`
	Words []string                    `yaml:"words,omitempty" strict:"empty"`
	Texts map[string]string           `yaml:"texts,omitempty" strict:"empty"`
	None  int
}

type item struct {
	A string `yaml:"a"`
}

func TestDecode(t *testing.T) {
	var f form
	file := Decode("f.yaml", []byte("name: x\non: true\nn: 3\nevery: 1m\nlist:\n- a: b\nmap: {k: 2s}\nraw: {a: c}\nwords: [a, '']\ntexts: {k: \"\"}\n"), &f)
	if err := file.Err(); err != nil {
		t.Fatal(err)
	}
	if len(f.Words) != 2 || f.Words[1] != "" || f.Texts["k"] != "" || len(f.Texts) != 1 {
		t.Errorf("want empty texts where they may be, got %q and %q", f.Words, f.Texts)
	}
	if f.Name != "x" || !f.On || *f.N != 3 || f.Every.String() != "1m0s" || f.List[0].A != "b" || f.Map["k"].String() != "2s" {
		t.Errorf("got %+v", f)
	}
	var inner item
	if !file.Decode("raw", &f.Raw, &inner) || inner.A != "c" {
		t.Errorf("raw: got %+v, %v", inner, file.Err())
	}
	if file.Line("list[0].a") != 6 || file.Line("list[0].unknown") != 6 || !file.Has("raw.a") || file.Has("raw.b") {
		t.Errorf("want the lines of fields, got %d and %d", file.Line("list[0].a"), file.Line("list[0].unknown"))
	}
}

func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "f.yaml:1: the file is empty",
		"# only a comment":                  "f.yaml:1: the file is empty",
		"name: x\n---\nname: y":             "f.yaml:2: want one document, got a second",
		"name: [":                           "not YAML",
		"name: x\nname: y":                  `f.yaml:2: name: duplicate key "name", first on line 1 (remedy: remove one of the two)`,
		"on: true":                          `f.yaml:1: field "name" is missing (remedy: add it)`,
		"name: x\nother: 1":                 `f.yaml:2: other: unknown field "other"; known: name, on, n, every, list, map, raw, words, texts`,
		"name: x\nNone: 1":                  `unknown field "None"`,
		"name: 1":                           `f.yaml:1: name: want text, got "1"`,
		"name: ''":                          `f.yaml:1: name: want text, got ""`,
		"name: '' ":                         `got "" (remedy: write text, or remove it)`,
		"name: x\nwords: [a, ]\ntexts: {a}": `f.yaml:3: texts.a: want text, got nothing (remedy: write text, in quotes where it looks like something else)`,
		"name: x\nwords:\n-":                `f.yaml:3: words[0]: want text, got nothing`,
		"name: x\nwords: [1]":               `f.yaml:2: words[0]: want text, got "1"`,
		"name:":                             `f.yaml:1: name: want text, got nothing`,
		"name: [x]":                         `f.yaml:1: name: want text, got a list`,
		"name: x\non: yes":                  `f.yaml:2: on: want true or false, got "yes"`,
		"name: x\nn: 4294967296":            `f.yaml:2: n: want a whole number, got "4294967296"`,
		"name: x\nn:":                       `f.yaml:2: n: want a whole number, got nothing`,
		"name: x\nevery: 10":                `f.yaml:2: every: 10 has no unit (remedy: write the unit, such as 10s)`,
		"name: x\nevery: 1.5":               `every: 1.5 has no unit`,
		"name: x\nevery: '10'":              `every: 10 has no unit`,
		"name: x\nevery: -10s":              `f.yaml:2: every: want a duration, got "-10s"`,
		"name: x\nevery: soon":              `f.yaml:2: every: want a duration, got "soon"`,
		"name: x\nevery: {}":                `f.yaml:2: every: want a value, got a mapping`,
		"name: x\nlist: y":                  `f.yaml:2: list: want a list, got "y"`,
		"name: x\nlist:\n- b: c":            `f.yaml:3: list[0].b: unknown field "b"; known: a`,
		"name: x\nmap: []":                  `f.yaml:2: map: want a mapping of fields, got a list`,
		"name: x\nmap:\n  a: 1s\n  a: 2s":   `f.yaml:4: map.a: duplicate key`,
		"name: &a x":                        `f.yaml:1: name: anchors and aliases are not supported`,
		"name: x\nraw: {a: {b: &x 1}}":      `f.yaml:2: raw.a.b: anchors and aliases are not supported`,
		"name: x\nraw: [{b: 1, b: 2}]":      `f.yaml:2: raw[0].b: duplicate key`,
		"- name":                            `f.yaml:1: want a mapping of fields, got a list`,
		"name: x\n[a]: b":                   `want a name as key, got a list`,
	} {
		var f form
		if err := Decode("f.yaml", []byte(text), &f).Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error with %q, got: %v", text, want, err)
		}
	}
}

func TestProblemsAreAllListedByLine(t *testing.T) {
	var f form
	file := Decode("f.yaml", []byte("every: 1\non: 2\n"), &f)
	file.Fail("on", "turn it off", "is on")
	var lines []int
	for _, p := range file.Problems() {
		lines = append(lines, p.Line)
	}
	if len(lines) != 4 || lines[0] != 1 || lines[3] != 2 {
		t.Errorf("want the missing name, the unit, the boolean and the caller's own, by line; got %v: %v", lines, file.Err())
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"name: x\nlist: [{a: b}]\nmap: {k: 1s}\nraw: {a: [1]}", "a: &a [*a]", "? {a: b}\n: c", "name: !!binary x", "\xff", "a:\n\t- b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v form
		err := Decode("f.yaml", data, &v).Err()
		if err == nil && v.Name == "" {
			t.Errorf("want a name or a problem, got neither from %q", data)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f.yaml:") {
			t.Errorf("want the file's name first, got %q", err)
		}
	})
}
