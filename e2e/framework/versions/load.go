package versions

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"headroom/e2e/framework/strict"
)

// Load decodes and checks a table. file is for messages only. Every error names file, line and field; all that can be found are reported.
//
// Strict: unknown fields, duplicate keys, missing fields and a second document are errors.
func Load(file string, data []byte) (Table, error) {
	var t Table
	d := strict.Decode(file, data, &t)
	if d.Err() == nil {
		check(d, t)
	}
	if err := d.Err(); err != nil {
		return Table{}, err
	}
	return t, nil
}

var toolchain = regexp.MustCompile(`^go1\.\d+(\.\d+)?$`)

func check(d *strict.File, t Table) {
	for _, skew := range []struct {
		field  string
		minors int
	}{
		{"skew.kubeControllerManager", t.Skew.KubeControllerManager},
		{"skew.kubeScheduler", t.Skew.KubeScheduler},
		{"skew.kubelet", t.Skew.Kubelet},
		{"skew.apiServers", t.Skew.APIServers},
	} {
		if skew.minors < 0 || skew.minors > 5 {
			d.Fail(skew.field, "write the number of minor versions", "want 0 to 5 minor versions, got %d", skew.minors)
		}
	}
	checkFeatures(d, t.Features)
	var attachers []Version
	for i, a := range t.Attachers {
		at := fmt.Sprintf("attachers[%d]", i)
		checkOrder(d, at+".version", a.Version, attachers)
		checkGates(d, at+".gates", a.Gates)
		attachers = append(attachers, a.Version)
	}
	var provisioners []Version
	for i, p := range t.Provisioners {
		checkOrder(d, fmt.Sprintf("provisioners[%d].version", i), p.Version, provisioners)
		provisioners = append(provisioners, p.Version)
	}
	if len(provisioners) == 0 {
		d.Fail("provisioners", "add a row, such as - version: v5.3.0", "want at least one release of external-provisioner")
	}
	var known []Version
	for i, r := range t.Kubernetes {
		at := fmt.Sprintf("kubernetes[%d]", i)
		checkOrder(d, at+".version", r.Version, known)
		checkGates(d, at+".gates", r.Gates)
		checkVersion(d, at+".etcd", r.Etcd)
		if !slices.Contains(attachers, r.Attacher) {
			d.Fail(at+".attacher", "add its row, or name another", "external-attacher %q has no row in attachers; known: %s", r.Attacher, join(attachers))
		}
		if pre := strings.Contains(string(r.Version), "-"); pre != r.Preview {
			d.Fail(at+".preview", "set it on pre-releases and on nothing else", "want %t of %s, got %t", pre, r.Version, r.Preview)
		}
		if r.Toolchain != "" && !toolchain.MatchString(r.Toolchain) {
			d.Fail(at+".toolchain", "name a Go release as `go version` does, or leave it out", "want one such as go1.27.3, got %q", r.Toolchain)
		}
		known = append(known, r.Version)
	}
	if !slices.Contains(known, t.DefaultVersion) {
		d.Fail("default", "add its row, or name another", "kubernetes version %q has no row in kubernetes; known: %s", t.DefaultVersion, join(known))
	}
}

// checkFeatures wants each feature that the code names, once, in a component that can have it.
func checkFeatures(d *strict.File, features []Feature) {
	var seen []string
	for i, f := range features {
		at := fmt.Sprintf("features[%d]", i)
		switch {
		case !slices.Contains(knownFeatures, f.Name):
			d.Fail(at+".name", "correct its name, or remove it", "unknown feature %q; known: %s", f.Name, strings.Join(knownFeatures, ", "))
		case slices.Contains(seen, f.Name):
			d.Fail(at+".name", "remove one of the two", "feature %q has two rows", f.Name)
		}
		seen = append(seen, f.Name)
		if !slices.Contains(featured, f.Component) {
			d.Fail(at+".component", "correct its name", "want one of %s, got %q", strings.Join(featured, ", "), f.Component)
		}
		if !slices.Contains(knownGates, f.Gate) {
			d.Fail(at+".gate", "correct its name", "unknown feature gate %q; known: %s", f.Gate, strings.Join(knownGates, ", "))
		}
		for field, text := range map[string]string{"does": f.Does, "without": f.Without} {
			if !strings.Contains(text, "{}") {
				d.Fail(at+"."+field, "write {} where the component stands", "want {} in %q", text)
			}
		}
	}
	for _, name := range knownFeatures {
		if !slices.Contains(seen, name) {
			d.Fail("features", "add its row", "feature %q has no row", name)
		}
	}
}

// featured are the components that features may be of.
var featured = []string{"kube-apiserver", "kubelet", AttacherComponent}

// checkVersion requires the canonical form, so that versions can be compared as text.
func checkVersion(d *strict.File, field string, v Version) bool {
	canonical, err := Parse(string(v))
	switch {
	case err != nil:
		d.Fail(field, "", "%v", err)
	case canonical != v:
		d.Fail(field, "", "version %q: write it as %q", v, canonical)
	default:
		return true
	}
	return false
}

func checkOrder(d *strict.File, field string, v Version, before []Version) {
	if !checkVersion(d, field, v) || len(before) == 0 {
		return
	}
	switch last := before[len(before)-1]; {
	case slices.Contains(before, v):
		d.Fail(field, "remove one of the two", "version %q has two rows", v)
	case v.Compare(last) < 0:
		d.Fail(field, "move the row", "version %q comes after %q; rows are in ascending order", v, last)
	}
}

func checkGates(d *strict.File, field string, gates map[string]Gate) {
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		g, at := gates[name], field+"."+name
		if !slices.Contains(knownGates, name) {
			d.Fail(at, "correct its name, or remove it", "unknown feature gate %q; known: %s", name, strings.Join(knownGates, ", "))
			continue
		}
		if !slices.Contains([]Stage{Alpha, Beta, GA}, g.Stage) {
			d.Fail(at+".stage", "leave out a gate that does not exist", "want alpha, beta or ga, got %q", g.Stage)
		}
		if g.Locked && g.Stage != GA {
			d.Fail(at+".locked", "write false, or correct the stage", "only a gate of stage ga can be locked, got stage %q", g.Stage)
		}
	}
}
