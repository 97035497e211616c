package report

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// Conformance is what a run shows of its driver, in the manner of the Gateway API's conformance reports. The rest of the report says the same of single
// rows, and of Kubernetes.
type Conformance struct {
	// Driver is the definition's name, Version what GetPluginInfo answered; "" where nobody asked.
	Driver  string `json:"driver" yaml:"driver"`
	Version string `json:"version,omitempty" yaml:"version,omitempty"`
	// Quota is where the driver's limit comes from: backend, gate, own, fixed, or start for a fixed one that Headroom chose.
	Quota string `json:"quota" yaml:"quota"`
	// Date is the run's.
	Date time.Time `json:"date,omitzero" yaml:"date,omitempty"`
	// HistoryDigest is "sha256:" and the hash of the history that was judged.
	HistoryDigest string    `json:"historyDigest,omitempty" yaml:"historyDigest,omitempty"`
	Profiles      []Profile `json:"profiles" yaml:"profiles"`
}

// Profile is a set of features with what came of them.
type Profile struct {
	Name string `json:"name" yaml:"name"`
	// Summary says the results in words.
	Summary string `json:"summary" yaml:"summary"`
	Core    Group  `json:"core" yaml:"core"`
	// Extended is about SupportedFeatures; nil when there are none.
	Extended *Group `json:"extended,omitempty" yaml:"extended,omitempty"`
	// SupportedFeatures are the extended features of which at least one row was put to the test, and whose specs were not all skipped; the others are
	// UnsupportedFeatures.
	SupportedFeatures   []string `json:"supportedFeatures,omitempty" yaml:"supportedFeatures,omitempty"`
	UnsupportedFeatures []string `json:"unsupportedFeatures,omitempty" yaml:"unsupportedFeatures,omitempty"`
}

// Result is what came of a group of features.
type Result string

// Results. What is skipped makes a group partial, whatever the reason.
const (
	ResultSuccess Result = "success"
	ResultPartial Result = "partial"
	ResultFailure Result = "failure"
)

// Group is what came of the rows of some features.
type Group struct {
	Result     Result     `json:"result" yaml:"result"`
	Statistics Statistics `json:"statistics" yaml:"statistics"`
	// Failed are the rows that are violated by the driver.
	Failed []string `json:"failed,omitempty" yaml:"failed,omitempty"`
	// Skipped are the rows that say nothing of the driver.
	Skipped []Reason `json:"skipped,omitempty" yaml:"skipped,omitempty"`
}

// Statistics count rows.
type Statistics struct {
	Passed  int `json:"passed" yaml:"passed"`
	Failed  int `json:"failed" yaml:"failed"`
	Skipped int `json:"skipped" yaml:"skipped"`
}

// Reason says why a row says nothing.
type Reason struct {
	Row    string `json:"row" yaml:"row"`
	Reason string `json:"reason" yaml:"reason"`
}

// notOfTheLimit are the rows on drivers that are theirs also where the limit is the gate's.
var notOfTheLimit = []string{"node-id-stable", "volume-made", "volume-deleted"}

// OfTheGate says whether a row on drivers is on the gate, which has the limit in the driver's place.
func OfTheGate(row, quota string, boundary history.Boundary) bool {
	return quota == history.LimitGate && boundary == history.Driver && !slices.Contains(notOfTheLimit, row)
}

// profileRow is a row of a report as a profile sees it.
type profileRow struct {
	status   Status
	boundary history.Boundary // that is to blame, or would be
	why      string
}

// conform makes the profiles from the rows as they stand; none where no requirement of a feature is in the report: a run that played a scenario, say.
func (r Report) conform(c Conformance) *Conformance { return r.conformTo(Features, c) }

func (r Report) conformTo(features []Feature, c Conformance) *Conformance {
	rows := map[string]profileRow{}
	some := false
	for _, q := range r.Requirements {
		p := profileRow{status: q.Status, boundary: q.Boundary, why: q.Message}
		if was, again := rows[q.ID]; !again || ranks[p.status] < ranks[was.status] {
			rows[q.ID] = p
		}
		some = some || slices.ContainsFunc(features, func(f Feature) bool { return slices.Contains(f.Requirements, q.ID) })
	}
	if !some {
		return nil
	}
	for _, i := range r.Invariants {
		p := profileRow{status: i.Status, boundary: i.Boundary, why: i.Detail}
		if v := i.worstBy(history.Driver); i.Status == Violated && v != nil {
			p.boundary, p.why = v.Boundary, v.Detail
		}
		rows[i.Name] = p
	}
	profile := Profile{Name: ProfileName}
	extended := &Group{}
	for _, f := range features {
		g := f.group(rows, c.Quota)
		switch {
		case f.Core:
			profile.Core.add(g)
		case g.Statistics.Passed+g.Statistics.Failed > 0 && !f.declined(rows):
			profile.SupportedFeatures = append(profile.SupportedFeatures, f.Name)
			extended.add(g)
		default:
			profile.UnsupportedFeatures = append(profile.UnsupportedFeatures, f.Name)
		}
	}
	profile.Core.conclude()
	if len(profile.SupportedFeatures) > 0 {
		extended.conclude()
		profile.Extended = extended
	}
	profile.Summary = profile.words()
	c.Profiles = []Profile{profile}
	return &c
}

// declined says that the feature's specs were skipped, all that there were: that a claim held meanwhile shows nothing of the feature.
func (f Feature) declined(rows map[string]profileRow) bool {
	skipped := false
	for _, id := range f.Requirements {
		switch rows[id].status {
		case Held, Violated:
			return false
		case Skipped:
			skipped = true
		}
	}
	return skipped
}

// worstBy is a violated verdict, one by the boundary given where there is one; nil when none is violated.
func (i InvariantResult) worstBy(boundary history.Boundary) *Verdict {
	var worst *Verdict
	for n := range i.Verdicts {
		if v := &i.Verdicts[n]; v.Status == Violated && (worst == nil || worst.Boundary != boundary) {
			worst = v
		}
	}
	return worst
}

// group judges the rows of one feature.
func (f Feature) group(rows map[string]profileRow, quota string) (g Group) {
	for _, name := range slices.Concat(f.Requirements, f.Invariants) {
		row, ran := rows[name]
		skip := func(format string, args ...any) {
			g.Statistics.Skipped++
			g.Skipped = append(g.Skipped, Reason{Row: name, Reason: clip(oneLine(fmt.Sprintf(format, args...)), 240)})
		}
		switch {
		case !ran:
			skip("it was not run")
		case row.status == Violated && row.boundary == history.Driver:
			g.Statistics.Failed++
			g.Failed = append(g.Failed, name)
		case row.status == Violated:
			skip("violated, but by %s: %s", row.boundary, row.why)
		case OfTheGate(name, quota, row.boundary):
			skip("judged on the gate, which has the limit in the driver's place")
		case row.status == Held:
			g.Statistics.Passed++
		default:
			skip("%s: %s", row.status.word(), cmp.Or(row.why, "no reason given"))
		}
	}
	return g
}

func (g *Group) add(o Group) {
	g.Statistics.Passed += o.Statistics.Passed
	g.Statistics.Failed += o.Statistics.Failed
	g.Statistics.Skipped += o.Statistics.Skipped
	g.Failed, g.Skipped = append(g.Failed, o.Failed...), append(g.Skipped, o.Skipped...)
}

func (g *Group) conclude() {
	switch {
	case g.Statistics.Failed > 0:
		g.Result = ResultFailure
	case g.Statistics.Skipped > 0, g.Statistics.Passed == 0:
		g.Result = ResultPartial
	default:
		g.Result = ResultSuccess
	}
}

func (g Group) words() string {
	return fmt.Sprintf("%s (%d passed, %d failed, %d skipped)", g.Result, g.Statistics.Passed, g.Statistics.Failed, g.Statistics.Skipped)
}

func (p Profile) words() string {
	text := "core: " + p.Core.words()
	if p.Extended != nil {
		text += "; extended, " + strings.Join(p.SupportedFeatures, ", ") + ": " + p.Extended.words()
	}
	return text
}

// follows finds a conformance part that the rows do not bear out. Extended features that it does not name are younger than the report.
func (r Report) follows() error {
	if r.Conformance == nil {
		return nil
	}
	named := func(f Feature) bool {
		return f.Core || slices.ContainsFunc(r.Conformance.Profiles, func(p Profile) bool {
			return slices.Contains(p.SupportedFeatures, f.Name) || slices.Contains(p.UnsupportedFeatures, f.Name)
		})
	}
	want := r.conformTo(slices.DeleteFunc(slices.Clone(Features), func(f Feature) bool { return !named(f) }), *r.Conformance)
	if want == nil || !reflect.DeepEqual(want.Profiles, r.Conformance.Profiles) {
		return fmt.Errorf("conformance: the rows do not say what the profiles say: it was edited; write it again with headroom check --write")
	}
	return nil
}

// profiles prints what came of the profiles.
func (t *table) profiles(r Report) {
	if r.Conformance == nil {
		return
	}
	for _, p := range r.Conformance.Profiles {
		t.paragraph("", fmt.Sprintf("profile %s of driver %s: %s", p.Name, strings.TrimSpace(r.Conformance.Driver+" "+r.Conformance.Version), p.Summary))
	}
	t.line("")
}
