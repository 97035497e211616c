package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The messages of the YAML library's parser. Their lines count from 0, while those of its scanner count from 1; none tells which it is.
var (
	// openMessages come with the line where the list or mapping begins that the parser is in, not with the line of what it met there.
	openMessages = []string{
		"did not find expected key", "did not find expected '-' indicator", "did not find expected ',' or ']'", "did not find expected ',' or '}'",
	}
	parserMessages = append([]string{
		"did not find expected node content", "did not find expected <document start>", "did not find expected <stream-start>", "found undefined tag handle",
		"found duplicate %YAML directive", "found duplicate %TAG directive", "found incompatible YAML document",
	}, openMessages...)
)

// apart are the parts of a line in which brackets, braces and placeholders mean nothing.
var apart = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|(?:^|\s)#.*`)

// bare is a line without its quoted texts and its comment.
func bare(line string) string { return apart.ReplaceAllString(line, "") }

// Syntax takes apart what the YAML library says of a text: the line, what is wrong there and what to do about it. Where the text can be read as YAML, err
// is about what it means, and its line is right as it is.
func Syntax(data []byte, err error) (line int, text, remedy string) {
	remedy = "correct the syntax"
	line, text = told(err)
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	// Behind an empty line no mark is on line 0, which the library does not tell.
	at, again := told(parse(append([]byte("\n"), data...)))
	switch {
	case again != text:
		return max(line, 1), text, "correct it"
	case at == 0:
		line = firstWith(lines, text)
	case slices.Contains(openMessages, text):
		line, text, remedy = inBlock(lines, at, text, remedy)
	case slices.Contains(parserMessages, text):
		line = at
	default:
		line = at - 1
	}
	line = min(max(line, 1), len(lines))
	if text == "found unexpected end of stream" {
		text, remedy = "the quoted text that begins here does not end", "close it with the quote that it begins with"
	}
	for i, l := range lines {
		if strings.Contains(bare(l), "{{") {
			return line, fmt.Sprintf("%s; line %d has {{, as a template does", text, i+1), "render it first, such as with helm template, or correct the syntax"
		}
	}
	return line, text, remedy
}

// Misread is what the YAML library says of a file's text, for those who do not read it with Decode.
func Misread(file string, data []byte, err error) error {
	line, text, remedy := Syntax(data, err)
	if parse(data) != nil {
		text = "not YAML: " + text
	}
	return &Problem{File: file, Line: line, What: text, Remedy: remedy}
}

// told takes the line out of what the library says; 0 where it names none.
func told(err error) (line int, text string) {
	if err == nil {
		return 0, ""
	}
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:"))
	if n, scanErr := fmt.Sscanf(text, "line %d:", &line); n == 1 && scanErr == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	return line, text
}

// parse says why a text is not YAML.
func parse(data []byte) error {
	in := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if err := in.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// firstWith is the line that brings about a message without one: that at the end of the shortest text that has it.
func firstWith(lines []string, message string) int {
	return 1 + sort.Search(len(lines)-1, func(i int) bool {
		_, text := told(parse([]byte(strings.Join(lines[:i+1], "\n"))))
		return text == message
	})
}

// inBlock finds the line of what the parser met in the list or mapping that begins on line begin. In a text that begins there, the library has nothing but
// that line to tell.
func inBlock(lines []string, begin int, message, remedy string) (line int, text, what string) {
	begin = min(max(begin, 1), len(lines))
	after, again := told(parse([]byte(strings.Join(lines[begin-1:], "\n"))))
	line, text = begin, message+" in the block that begins on line "+fmt.Sprint(begin)
	suspects := lines[begin-1:]
	if again == message {
		if line = min(begin+after, len(lines)); line == begin {
			text = message
		}
		suspects = lines[line-1 : line]
	}
	if strings.Contains(message, "','") && slices.ContainsFunc(suspects, func(l string) bool { return strings.Contains(bare(l), "${") }) {
		remedy = `put texts with ${...} in quotes inside [ ] and { }, such as ["--endpoint=${ENDPOINT}"]`
	}
	return line, text, remedy
}
