package report

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapes are the control sequences that colour a text or move the cursor.
var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// printable removes escape sequences, control characters other than line ends and tabs, and what XML cannot carry. Messages come from drivers and
// components: they must neither break a file nor move the cursor.
func printable(s string) string {
	s = escapes.ReplaceAllString(s, "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r == 0xFFFE, r == 0xFFFF, r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
}

// Visible writes control characters as escapes, line ends and tabs aside: of two texts that differ in them it can be seen, and none moves the cursor.
func Visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// oneField is a text from a report's file, as part of a line.
func oneField(s string) string { return Visible(strings.Join(strings.Fields(s), " ")) }

// oneLine joins the words of s by single blanks.
func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }

// clip cuts s to width runes, with an ellipsis in place of what is cut.
func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	return strings.TrimRight(string(r[:max(0, width-1)]), " ") + "…"
}

// pad fills s with blanks up to width runes.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// wrap breaks s into lines of at most width runes, keeping its own line ends. A longer word has a line to itself.
func wrap(s string, width int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(strings.TrimRight(printable(s), "\n"), "\n") {
		var line string
		for _, word := range strings.Fields(paragraph) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
				lines = append(lines, line)
				line = word
			default:
				line += " " + word
			}
		}
		lines = append(lines, line)
	}
	return lines
}
