package versions

import "testing"

func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		terms, version string
		want, fails    bool
	}{
		{"all", "v1.36.3", true, false},
		{">=1.33 <1.38", "v1.33.0", true, false},
		{">=1.33 <1.38", "v1.37.9", true, false},
		{">=1.33 <1.38", "v1.38.0-beta.0", false, false},
		{">=1.33 <1.38", "v1.9.0", false, false},
		{"<=1.37", "v1.37.5", true, false},
		{">1.37", "v1.37.5", false, false},
		{">=1.35", "v1.35.0", true, false},
		{"=1.36.3", "v1.36.3", true, false},
		{"v1.36", "v1.36.3", true, false},
		{"", "v1.36.3", false, true},
		{"=>1.36", "v1.36.3", false, true},
		{">=one", "v1.36.3", false, true},
		{">=", "v1.36.3", false, true},
		{">=1.36.3.1", "v1.36.3", false, true},
		{">=1.36", "main", false, true},
	} {
		got, err := Within(tc.terms, tc.version)
		if got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%q with %q: want %v (error: %v), got %v (%v)", tc.terms, tc.version, tc.want, tc.fails, got, err)
		}
	}
}
