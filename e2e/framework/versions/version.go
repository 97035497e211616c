// Package versions knows Kubernetes versions and what each of them does: gates, flags, supported skew.
//
// It reads one table, kind-configs/versions.yaml, embedded; it runs nothing.
package versions

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a released version, "v1.36.3". The zero value is no version.
type Version string

// Parse accepts "1.36.3" and "v1.36.3". Pre-releases ("v1.38.0-beta.0") are accepted too.
func Parse(s string) (Version, error) {
	v := Version("v" + strings.TrimPrefix(s, "v"))
	parts := strings.SplitN(strings.TrimPrefix(string(v), "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("version %q: want MAJOR.MINOR.PATCH, such as v1.36.3", s)
	}
	patch, _, _ := strings.Cut(parts[2], "-")
	for _, p := range []string{parts[0], parts[1], patch} {
		if _, err := strconv.ParseUint(p, 10, 16); err != nil {
			return "", fmt.Errorf("version %q: %q is not a number; want MAJOR.MINOR.PATCH, such as v1.36.3", s, p)
		}
	}
	return v, nil
}

func (v Version) String() string { return string(v) }

// Number is the version without its "v".
func (v Version) Number() string { return strings.TrimPrefix(string(v), "v") }

// Major returns the first number, or 0 for the zero value.
func (v Version) Major() int { return v.part(0) }

// Minor returns the second number, or 0 for the zero value.
func (v Version) Minor() int { return v.part(1) }

func (v Version) part(i int) int {
	release, _, _ := strings.Cut(v.Number(), "-")
	parts := strings.SplitN(release, ".", 3)
	if i >= len(parts) {
		return 0
	}
	n, err := strconv.Atoi(parts[i])
	if err != nil {
		return 0
	}
	return n
}

// Compare orders versions by their numbers: negative when v is older than o, 0 when equal, positive when newer. A pre-release comes before its
// release; pre-releases of one release are ordered as text, which holds up to ten of a kind.
func (v Version) Compare(o Version) int {
	for i := range 3 {
		if c := cmp.Compare(v.part(i), o.part(i)); c != 0 {
			return c
		}
	}
	_, a, pre := strings.Cut(string(v), "-")
	_, b, other := strings.Cut(string(o), "-")
	switch {
	case pre && !other:
		return -1
	case !pre && other:
		return 1
	}
	return cmp.Compare(a, b)
}
