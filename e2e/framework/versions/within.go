package versions

import (
	"fmt"
	"strconv"
	"strings"
)

// Within reports whether v meets every term of a range such as ">=1.33 <1.38" or "all". Versions are compared to the precision that the term
// gives: v1.37.5 meets "<=1.37". Pre-releases count as the release they lead to.
func Within(terms, v string) (bool, error) {
	if strings.TrimSpace(terms) == "all" {
		return true, nil
	}
	fields := strings.Fields(terms)
	if len(fields) == 0 {
		return false, fmt.Errorf("version range %q: want %q or terms such as %q", terms, "all", ">=1.33 <1.38")
	}
	in := true
	for _, term := range fields {
		number := strings.TrimLeft(term, "<>=")
		op := term[:len(term)-len(number)]
		order, err := compare(v, number)
		if err != nil {
			return false, fmt.Errorf("version range %q: %w", terms, err)
		}
		meets := map[string]bool{">=": order >= 0, ">": order > 0, "<=": order <= 0, "<": order < 0, "=": order == 0, "": order == 0}
		met, known := meets[op]
		if !known {
			return false, fmt.Errorf("version range %q: %q: want one of >= > <= < =", terms, op)
		}
		in = in && met
	}
	return in, nil
}

// compare orders version against bound by as many numbers as bound has.
func compare(version, bound string) (int, error) {
	have, want := numbers(version), numbers(bound)
	for i, w := range want {
		if i >= len(have) {
			return 0, fmt.Errorf("version %q has fewer numbers than %q", version, bound)
		}
		h, err := strconv.Atoi(have[i])
		if err != nil {
			return 0, fmt.Errorf("version %q: %q is not a number", version, have[i])
		}
		b, err := strconv.Atoi(w)
		if err != nil {
			return 0, fmt.Errorf("version %q: %q is not a number", bound, w)
		}
		if h != b {
			return h - b, nil
		}
	}
	return 0, nil
}

func numbers(version string) []string {
	release, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	return strings.Split(release, ".")
}
