package versions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Features that the table describes.
const (
	// PeriodStored is a kube-apiserver that keeps CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds.
	PeriodStored = "period-stored"
	// CountMutable is a kube-apiserver that lets CSINode.spec.drivers[].allocatable change in place.
	CountMutable = "count-mutable"
	// ErrorCodeStored is a kube-apiserver that keeps VolumeAttachment.status.attachError.errorCode.
	ErrorCodeStored = "error-code-stored"
	// PeriodicRefresh is a kubelet that asks drivers again each period.
	PeriodicRefresh = "periodic-refresh"
	// PodRejection is a kubelet that fails pods which wait on a full node.
	PodRejection = "pod-rejection"
	// ErrorCodeSet is an external-attacher that passes on the code of a failed attach.
	ErrorCodeSet = "error-code-set"
)

var knownFeatures = []string{PeriodStored, CountMutable, ErrorCodeStored, PeriodicRefresh, PodRejection, ErrorCodeSet}

// Minor is a minor release such as v1.36.
type Minor struct{ major, minor int }

// UnmarshalText reads "v1.36".
func (m *Minor) UnmarshalText(text []byte) error {
	parts := strings.Split(strings.TrimPrefix(string(text), "v"), ".")
	if !strings.HasPrefix(string(text), "v") || len(parts) != 2 {
		return fmt.Errorf("minor release %q: want vMAJOR.MINOR, such as v1.36", text)
	}
	for i, to := range []*int{&m.major, &m.minor} {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil {
			return fmt.Errorf("minor release %q: %q is not a number; want vMAJOR.MINOR, such as v1.36", text, parts[i])
		}
		*to = int(n)
	}
	return nil
}

func (m Minor) String() string { return fmt.Sprintf("v%d.%d", m.major, m.minor) }

// Compare orders minor releases: negative when m is older than o.
func (m Minor) Compare(o Minor) int {
	return cmp.Or(cmp.Compare(m.major, o.major), cmp.Compare(m.minor, o.minor))
}

// MinorOf is the minor release that v belongs to; pre-releases belong to the release they lead to.
func (v Version) MinorOf() Minor { return Minor{v.Major(), v.Minor()} }

// Feature is something that a component does from a minor release on, where its gate is on.
type Feature struct {
	Name      string `yaml:"name"`
	Component string `yaml:"component"`
	// Since is the first release that has it.
	Since Minor `yaml:"since"`
	// Gate must be on in the component.
	Gate string `yaml:"gate"`
	// Field is the API field that the component then keeps; "" for none.
	Field string `yaml:"field,omitempty"`
	// Does says what the component does, Without what follows where it does not; {} stands for the component and its version.
	Does    string `yaml:"does"`
	Without string `yaml:"without"`
}

// Applied is what comes of a feature in a component that ran.
type Applied struct {
	Feature
	Version Version
	Works   bool
	// Why is the reason for which it does not work: "gate off", or "from v1.33 on"; "" where it works.
	Why string
}

// Text says in a sentence what the component does, or what follows where it does not.
func (a Applied) Text() string {
	subject := a.Component + " " + a.Version.String()
	if a.Works {
		return strings.ReplaceAll(a.Does, "{}", subject)
	}
	return fmt.Sprintf("%s (%s)", strings.ReplaceAll(a.Without, "{}", subject), a.Why)
}

// Feature returns a feature of the table; false when it has none of that name.
func (t Table) Feature(name string) (Feature, bool) {
	i := slices.IndexFunc(t.Features, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		return Feature{}, false
	}
	return t.Features[i], true
}

// Apply says what comes of a feature in its component at version v. set is what a flag made of the gate: "true", "false", or "" for the release's
// default. A gate that is locked stays as it is; one that a release does not have is off. A release that the table lacks is taken for the newest
// one before it.
func (t Table) Apply(f Feature, v Version, set string) Applied {
	a := Applied{Feature: f, Version: v}
	gate := t.gateAt(f.Component, f.Gate, v)
	on := gate.Enabled
	if set != "" && !gate.Locked {
		on = set == "true"
	}
	switch {
	case v.MinorOf().Compare(f.Since) < 0:
		a.Why = "from " + f.Since.String() + " on"
	case !on:
		a.Why = "gate off"
	default:
		a.Works = true
	}
	return a
}

// gateAt is a gate's state in the newest row that is not of a later minor release than v.
func (t Table) gateAt(component, name string, v Version) Gate {
	at := v.MinorOf()
	state := Gate{Stage: Absent}
	if component == AttacherComponent {
		for _, a := range t.Attachers {
			if a.Version.MinorOf().Compare(at) <= 0 {
				state = gate(a.Gates, name)
			}
		}
		return state
	}
	for _, r := range t.Kubernetes {
		if r.Version.MinorOf().Compare(at) <= 0 {
			state = gate(r.Gates, name)
		}
	}
	return state
}

// AttacherComponent is the component kind that the table has rows of its own for.
const AttacherComponent = "csi-attacher"

// ProvisionerComponent is external-provisioner, of which the table has rows too. It runs only for drivers whose definition asks for it, so that it is none
// of Versioned.
const ProvisionerComponent = "csi-provisioner"

// Works says what comes of the named feature in a run. ran is what a history's header has: versions by component, and under "<component>/<gate>"
// what a flag made of a gate. A component that did not run does nothing.
func (t Table) Works(name string, ran map[string]string) Applied {
	f, known := t.Feature(name)
	if !known {
		return Applied{Feature: Feature{Name: name, Without: "no feature " + strconv.Quote(name)}, Why: "not in the table"}
	}
	v := ran[f.Component]
	if v == "" {
		return Applied{Feature: f, Why: "it did not run"}
	}
	return t.Apply(f, Version(v), ran[f.Component+"/"+f.Gate])
}

// Rules says of each feature what comes of it in a run, in the order of the table, for the components that ran.
func (t Table) Rules(ran map[string]string) []Applied {
	var all []Applied
	for _, f := range t.Features {
		if ran[f.Component] != "" {
			all = append(all, t.Works(f.Name, ran))
		}
	}
	return all
}

// Silent says what is wrong with versions that run together without a word although the feature does nothing: the API server stores a period that the
// kubelet does not act on. It is "" for others.
func (t Table) Silent(ran map[string]string) string {
	period, refresh := t.Works(PeriodStored, ran), t.Works(PeriodicRefresh, ran)
	if !period.Works || refresh.Works {
		return ""
	}
	return fmt.Sprintf("silent: kube-apiserver %s stores a period, and kubelet %s does not act on it (%s)", period.Version, refresh.Version, refresh.Why)
}

// Unlocked says whether the gate of a feature can be on or off in its component at version v.
func (t Table) Unlocked(feature string, v Version) bool {
	f, known := t.Feature(feature)
	gate := t.gateAt(f.Component, f.Gate, v)
	return known && gate.Stage != Absent && !gate.Locked
}
