package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

// kinds maps a boundary to the component whose version decides whether a known defect is in what ran. A driver or the harness is not upstream.
var kinds = map[history.Boundary]string{
	history.Attacher:          "csi-attacher",
	history.Kubelet:           "kubelet",
	history.Scheduler:         "kube-scheduler",
	history.APIServer:         "kube-apiserver",
	history.ControllerManager: "kube-controller-manager",
}

// running is every version of a component kind that ran in the course of the history.
type running map[string]map[string]bool

func newRunning(begin map[string]string) running {
	r := running{}
	for kind, version := range begin {
		r.add(kind, version)
	}
	return r
}

func (r running) add(kind, version string) {
	if version == "" {
		return
	}
	if r[kind] == nil {
		r[kind] = map[string]bool{}
	}
	r[kind][version] = true
}

func (r running) observe(e history.Event) {
	if !strings.HasPrefix(e.Source, history.PrefixComponent) {
		return
	}
	var c history.Component
	if e.Decode(&c) != nil {
		return // the frame of the writer's file
	}
	kind, _, _ := strings.Cut(e.Key, "@")
	r.add(kind, c.Version)
}

// known returns the declared defects that are in every version that ran. Where a defect is declared and does not apply, or cannot be told to,
// the second result says why: in a mixed run a violation may come from the version that should be free of it, so it is not excused.
func (r running) known(inv invariants.Invariant) ([]invariants.Known, string) {
	var applies []invariants.Known
	var refusal string
	kind := kinds[inv.Boundary]
	ran := slices.Sorted(maps.Keys(r[kind]))
	for _, k := range inv.KnownUpstream {
		in, err := 0, error(nil)
		for _, version := range ran {
			ok, e := inRange(k.Versions, version)
			if e != nil {
				err = e
			}
			if ok {
				in++
			}
		}
		switch {
		case err != nil:
			refusal = fmt.Sprintf("not excused as known upstream: %v", err)
		case len(ran) == 0:
			refusal = fmt.Sprintf("not excused as known upstream: the history does not say which version of %s ran", inv.Boundary)
		case in < len(ran):
			refusal = fmt.Sprintf("not excused as known upstream: known for %s, %s ran", k.Versions, strings.Join(ran, " and "))
		default:
			applies = append(applies, k)
		}
	}
	return applies, refusal
}

// inRange reports whether version meets every term of a range such as ">=1.33 <1.38" or "all". Versions are compared to the precision that the
// term gives: v1.37.5 meets "<=1.37".
func inRange(terms, version string) (bool, error) {
	if strings.TrimSpace(terms) == "all" {
		return true, nil
	}
	fields := strings.Fields(terms)
	if len(fields) == 0 {
		return false, fmt.Errorf("version range %q: want %q or terms such as %q", terms, "all", ">=1.33 <1.38")
	}
	for _, term := range fields {
		number := strings.TrimLeft(term, "<>=")
		op := term[:len(term)-len(number)]
		order, err := compare(version, number)
		if err != nil {
			return false, fmt.Errorf("version range %q: %w", terms, err)
		}
		var ok bool
		switch op {
		case ">=":
			ok = order >= 0
		case ">":
			ok = order > 0
		case "<=":
			ok = order <= 0
		case "<":
			ok = order < 0
		case "=", "":
			ok = order == 0
		default:
			return false, fmt.Errorf("version range %q: %q: want one of >= > <= < =", terms, op)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// compare orders version against bound by as many numbers as bound has. Pre-releases count as the release they lead to.
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
