package report

import "testing"

func TestPlural(t *testing.T) {
	for _, c := range []struct {
		n          int
		what, want string
	}{{0, "time", "0 times"}, {1, "time", "1 time"}, {2, "time", "2 times"}, {1, "query", "1 query"}, {3, "capability", "3 capabilities"}} {
		if got := Plural(c.n, c.what); got != c.want {
			t.Errorf("want %q, got %q", c.want, got)
		}
	}
	if got := figures([]Verdict{{Judged: 1}}); got != "1 time" {
		t.Errorf("figures: want 1 time, got %q", got)
	}
}
