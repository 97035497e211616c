package report

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestDiff(t *testing.T) {
	from := Comparable{Facts: map[string]string{"driver": "mine", "kubelet": "v1.35.4", "gone": "x", "attacher\x1b[2J": "v4.12.0", "etcd": "v3.6"}, Rows: []Row{
		{"requirement", "same", Held, ""}, {"requirement", "breaks", Held, ""}, {"requirement", "mends", Violated, "want 1"}, {"requirement", "opens", Held, ""},
		{"requirement", "leaves", Held, "was here"}, {"invariant", "skips", Held, ""}, {"invariant", "same", Inconclusive, ""}, {"invariant", "shifts", Skipped, ""},
		{"requirement", "tried twice", Violated, ""}, {"requirement", "tried twice", Held, ""}, {"invariant", "nonsense", Held, ""}, {"invariant", "red\x1b[31m", Held, ""},
		{"requirement", "breaks once", Held, ""}, {"requirement", "breaks once", Held, ""}, {"invariant", "excused", Held, ""}, {"invariant", "unread", Skipped, ""},
	}}
	to := Comparable{Facts: map[string]string{"driver": "mine", "kubelet": "v1.36.3", "attacher\x1b[2J": "v4.13.0\x1b[31m\nworse:\n", "etcd": "v3.6\x07"}, Rows: []Row{
		{"requirement", "same", Held, ""}, {"requirement", "breaks", Violated, "want 8, got 9"}, {"requirement", "mends", Held, ""}, {"requirement", "opens", Inconclusive, ""},
		{"requirement", "comes", Held, ""}, {"requirement", "comes broken", Violated, ""}, {"requirement", "comes open", Inconclusive, ""},
		{"invariant", "skips", Skipped, ""}, {"invariant", "same", Inconclusive, ""}, {"invariant", "shifts", NotJudged, ""},
		{"requirement", "tried twice", Held, ""}, {"requirement", "tried twice", Violated, ""}, {"invariant", "nonsense", "Fine", ""}, {"invariant", "red\x1b[31m", Violated, "\x1b[2Jwant"},
		{"requirement", "breaks once", Violated, ""}, {"requirement", "breaks once", Held, ""}, {"invariant", "excused", KnownUpstream, ""}, {"invariant", "unread", Inconclusive, ""},
		{"requirement", "comes skipped", Skipped, ""},
	}}
	d := Diff(from, to)
	ids := func(changes []Change) (out []string) {
		for _, c := range changes {
			out = append(out, c.ID)
		}
		return out
	}
	for _, c := range []struct {
		name      string
		got, want []string
	}{
		{"worse", ids(d.Worse), []string{"breaks", "breaks once", "comes broken", "comes open", "opens", "excused", "nonsense", "red\x1b[31m", "skips", "unread"}},
		{"better", ids(d.Better), []string{"mends"}},
		{"other", ids(d.Other), []string{"comes", "comes skipped", "leaves", "shifts"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: want %q, got %q", c.name, c.want, c.got)
		}
	}
	if d.Same != 3 {
		t.Errorf("want 3 the same, got %d", d.Same)
	}
	if want := []Fact{{"attacher\x1b[2J", "v4.12.0", "v4.13.0\x1b[31m\nworse:\n"}, {"etcd", "v3.6", "v3.6\x07"}, {"gone", "x", ""}, {"kubelet", "v1.35.4", "v1.36.3"}}; !slices.Equal(d.Facts, want) {
		t.Errorf("facts: want %v, got %v", want, d.Facts)
	}
	var out strings.Builder
	if err := d.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gone: x -> none\n", "kubelet: v1.35.4 -> v1.36.3\n", "worse:\n  requirement breaks: held -> violated  want 8, got 9\n",
		"  requirement comes broken: not in it -> violated\n", "better:\n  requirement mends: violated -> held  want 1\n",
		"other:\n  requirement comes: not in it -> held\n  requirement comes skipped: not in it -> skipped\n  requirement leaves: held -> not in it  was here\n",
		"invariant nonsense: held -> NO VERDICT\n", "10 worse, 1 better, 4 other, 3 the same\n",
		`attacher\x1b[2J: v4.12.0 -> v4.13.0\x1b[31m worse:` + "\n", `etcd: v3.6 -> v3.6\a` + "\n", `invariant red\x1b[31m: held -> violated  want` + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, out.String())
		}
	}
	for _, got := range out.String() {
		if got != '\n' && unicode.IsControl(got) {
			t.Errorf("want no control characters printed, got %q in:\n%q", got, out.String())
		}
	}
	if d := Diff(from, from); len(d.Facts)+len(d.Worse)+len(d.Better)+len(d.Other) > 0 {
		t.Errorf("a report with itself: want no difference, got %+v", d)
	}
	if d := Diff(Comparable{}, Comparable{}); d.Same != 0 || len(d.Other) > 0 {
		t.Errorf("nothing with nothing: got %+v", d)
	}
}

func TestVisible(t *testing.T) {
	for s, want := range map[string]string{
		"":                          "",
		"v1.36.3, größer\n\tzweite": "v1.36.3, größer\n\tzweite",
		"a \\ and \"b\"":            "a \\ and \"b\"",
		"\x1b[31mred\x1b[0m":        `\x1b[31mred\x1b[0m`,
		"back\rover\b\x00\x7f":      `back\rover\b\x00\x7f`,
		"\u009b2J":                  `\u009b2J`,
	} {
		if got := Visible(s); got != want {
			t.Errorf("%q: want %q, got %q", s, want, got)
		}
	}
}
