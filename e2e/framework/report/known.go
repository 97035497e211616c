package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
	"headroom/e2e/invariants"
)

// kinds maps a boundary to the component whose version decides whether a known defect is in what ran. A driver or the harness is not upstream.
var kinds = map[history.Boundary]string{
	history.Attacher:          "csi-attacher",
	history.Provisioner:       "csi-provisioner",
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
			ok, e := versions.Within(k.Versions, version)
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
