package suite

import (
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	for _, tt := range []struct {
		focus, labels string
		with, without string // one id each that must be chosen and left out
		bad           string // part of the error
	}{
		{"", "", "attach-classes", "phases-spread", ""},
		{"", "!slow", "count-drop", "phases-spread", ""},
		{"", "!slow", "count-drop", "attach-classes", ""},
		{"", "slow || smoke", "attach-classes", "phases-spread", ""},
		{"", "long", "phases-spread", "count-drop", ""},
		{"", "!slow || long", "phases-spread", "attach-classes", ""},
		{"^count-", "", "count-raise", "throttled", ""},
		{"phases-spread", "long", "phases-spread", "count-drop", ""},
		{"phases-spread", "", "", "", "--label-filter long"},
		{"[", "", "", "", "--focus"},
		{"", "&&", "", "", "--label-filter"},
		{"", "!slow) || (long", "", "", "--label-filter"},
	} {
		got, err := Select(tt.focus, tt.labels)
		if tt.bad != "" {
			if err == nil || !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("%q, %q: want an error with %q, got %v, error %v", tt.focus, tt.labels, tt.bad, got, err)
			}
			continue
		}
		if err != nil || !slices.Contains(got, tt.with) || slices.Contains(got, tt.without) {
			t.Errorf("%q, %q: want %q chosen and %q not, got %v, error %v", tt.focus, tt.labels, tt.with, tt.without, got, err)
		}
	}
}
