package versions

import (
	"reflect"
	"strings"
	"testing"

	kindconfigs "headroom/kind-configs"
)

func TestEmbeddedTable(t *testing.T) {
	table, err := Load(kindconfigs.VersionsFile, kindconfigs.Versions)
	if err != nil {
		t.Fatal(err)
	}
	want := []Version{"v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2", "v1.38.0-beta.0"}
	if got := table.Known(); !reflect.DeepEqual(got, want) {
		t.Errorf("known versions: want %v, got %v", want, got)
	}
	if got := Default().Version; got != "v1.36.3" {
		t.Errorf("default: want v1.36.3, got %s", got)
	}
	if want := (Skew{KubeControllerManager: 1, KubeScheduler: 1, Kubelet: 3, APIServers: 1}); table.Skew != want {
		t.Errorf("skew: want %+v, got %+v", want, table.Skew)
	}
	for _, r := range table.Kubernetes {
		if _, err := table.LookupAttacher(r.Attacher); err != nil {
			t.Errorf("%s: %v", r.Version, err)
		}
	}
}

func TestGateByRelease(t *testing.T) {
	for _, c := range []struct {
		version Version
		gate    string
		want    Gate
	}{
		{"v1.32.13", MutableCSINodeAllocatableCount, Gate{Stage: Absent}},
		{"v1.33.13", MutableCSINodeAllocatableCount, Gate{Stage: Alpha}},
		{"v1.34.4", MutableCSINodeAllocatableCount, Gate{Stage: Beta}},
		{"v1.35.4", MutableCSINodeAllocatableCount, Gate{Stage: Beta, Enabled: true}},
		{"v1.36.3", MutableCSINodeAllocatableCount, Gate{Stage: GA, Enabled: true, Locked: true}},
		{"v1.37.2", MutableCSINodeAllocatableCount, Gate{Stage: GA, Enabled: true, Locked: true}},
		{"v1.34.4", VolumeLimitScaling, Gate{Stage: Absent}},
		{"v1.36.3", VolumeLimitScaling, Gate{Stage: Alpha}},
		{"v1.37.2", VolumeLimitScaling, Gate{Stage: Beta, Enabled: true}},
	} {
		r, err := Lookup(c.version)
		if err != nil {
			t.Error(err)
		} else if got := r.Gate(c.gate); got != c.want {
			t.Errorf("%s %s: want %+v, got %+v", c.version, c.gate, c.want, got)
		}
	}
	for version, want := range map[Version]Gate{"v4.11.0": {Stage: Beta}, "v4.12.0": {Stage: GA, Enabled: true}, "v4.13.0": {Stage: GA, Enabled: true}} {
		a, err := Embedded().LookupAttacher(version)
		if err != nil {
			t.Error(err)
		} else if got := a.Gate(MutableCSINodeAllocatableCount); got != want {
			t.Errorf("attacher %s: want %+v, got %+v", version, want, got)
		}
	}
}

func TestUnknownVersionListsKnown(t *testing.T) {
	_, err := Lookup("v1.20.0")
	if err == nil || !strings.Contains(err.Error(), `"v1.20.0"`) || !strings.Contains(err.Error(), "v1.32.13, v1.33.13") {
		t.Errorf("want the version and the known ones, got: %v", err)
	}
	_, err = Embedded().LookupAttacher("v4.1.0")
	if err == nil || !strings.Contains(err.Error(), "known: v4.11.0, v4.12.0, v4.13.0") {
		t.Errorf("want the known attachers, got: %v", err)
	}
	if err = Embedded().Row(ProvisionerComponent, "v5.1.0"); err == nil || !strings.Contains(err.Error(), "known: v5.3.0") {
		t.Errorf("want the known provisioners, got: %v", err)
	}
	if v := Embedded().Provisioner(); Embedded().Row(ProvisionerComponent, v) != nil {
		t.Errorf("want a row of the provisioner that runs by itself, %q", v)
	}
}

func TestLookupLendsNoSharedGates(t *testing.T) {
	r := Default()
	r.Gates[MutableCSINodeAllocatableCount] = Gate{Stage: Alpha}
	if got := Default().Gate(MutableCSINodeAllocatableCount).Stage; got != GA {
		t.Errorf("a caller changed the table: stage is now %q", got)
	}
}

const good = `default: v1.36.3
skew: {kubeControllerManager: 1, kubeScheduler: 1, kubelet: 3, apiServers: 1}
attachers:
  - version: v4.12.0
    gates: {}
kubernetes:
  - version: v1.35.4
    gates:
      MutableCSINodeAllocatableCount: {stage: beta, enabled: true, locked: false}
    etcd: v3.6.16
    attacher: v4.12.0
  - version: v1.36.3
    gates:
      MutableCSINodeAllocatableCount: {stage: ga, enabled: true, locked: true}
    etcd: v3.6.16
    attacher: v4.12.0
features:
  - {name: period-stored, component: kube-apiserver, since: v1.33, gate: MutableCSINodeAllocatableCount, field: CSIDriver.spec.x, does: "{} a", without: "{} b"}
  - {name: count-mutable, component: kube-apiserver, since: v1.33, gate: MutableCSINodeAllocatableCount, does: "{} a", without: "{} b"}
  - {name: error-code-stored, component: kube-apiserver, since: v1.33, gate: MutableCSINodeAllocatableCount, does: "{} a", without: "{} b"}
  - {name: periodic-refresh, component: kubelet, since: v1.33, gate: MutableCSINodeAllocatableCount, does: "{} a", without: "{} b"}
  - {name: pod-rejection, component: kubelet, since: v1.34, gate: MutableCSINodeAllocatableCount, does: "{} a", without: "{} b"}
  - {name: error-code-set, component: csi-attacher, since: v4.10, gate: MutableCSINodeAllocatableCount, does: "{} a", without: "{} b"}
provisioners:
  - version: v5.3.0
`

func TestLoadRefuses(t *testing.T) {
	if _, err := Load("f.yaml", []byte(good)); err != nil {
		t.Fatalf("the base of this test must load: %v", err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown field", "    etcd: v3.6.16\n    attacher: v4.12.0\n  - version: v1.36.3",
			"    etdc: v3.6.16\n    attacher: v4.12.0\n  - version: v1.36.3",
			`f.yaml:10: kubernetes[0].etdc: unknown field "etdc"; known: version, gates, etcd, attacher, preview, toolchain`},
		{"no provisioner", "provisioners:\n  - version: v5.3.0\n", "provisioners: []\n", `f.yaml:24: provisioners: want at least one release of external-provisioner`},
		{"provisioners out of order", "  - version: v5.3.0\n", "  - version: v5.3.0\n  - version: v5.2.0\n", `f.yaml:26: provisioners[1].version: version "v5.2.0" comes after "v5.3.0"`},
		{"missing field", "    etcd: v3.6.16\n    attacher: v4.12.0\n  - version: v1.36.3", "    attacher: v4.12.0\n  - version: v1.36.3",
			`f.yaml:7: kubernetes[0]: field "etcd" is missing`},
		{"duplicate key", "default: v1.36.3\n", "default: v1.36.3\ndefault: v1.35.4\n",
			`f.yaml:2: default: duplicate key "default", first on line 1`},
		{"duplicate gate", "stage: ga, enabled: true", "stage: ga, stage: ga, enabled: true",
			`f.yaml:14: kubernetes[1].gates.MutableCSINodeAllocatableCount.stage: duplicate key`},
		{"wrong scalar", "enabled: true, locked: false", "enabled: maybe, locked: false",
			`f.yaml:9: kubernetes[0].gates.MutableCSINodeAllocatableCount.enabled: want true or false, got "maybe"`},
		{"old booleans", "enabled: true, locked: false", "enabled: on, locked: false", `enabled: want true or false, got "on"`},
		{"number for text", "default: v1.36.3", "default: 1.36", `f.yaml:1: default: want text, got "1.36"`},
		{"text for number", "kubelet: 3", "kubelet: three", `f.yaml:2: skew.kubelet: want a whole number, got "three"`},
		{"fraction", "kubelet: 3", "kubelet: 0.5", `f.yaml:2: skew.kubelet: want a whole number, got "0.5"`},
		{"list for text", "default: v1.36.3", "default: [v1.36.3]", `f.yaml:1: default: want text, got a list`},
		{"text for list", "attachers:\n  - version: v4.12.0\n    gates: {}\n", "attachers: v4.12.0\n", `f.yaml:3: attachers: want a list`},
		{"text for mapping", "gates: {}", "gates: none", `f.yaml:5: attachers[0].gates: want a mapping of fields`},
		{"null", "etcd: v3.6.16\n    attacher: v4.12.0\n  - version: v1.36.3", "etcd:\n    attacher: v4.12.0\n  - version: v1.36.3",
			`f.yaml:10: kubernetes[0].etcd: want text`},
		{"skew too large", "kubelet: 3", "kubelet: 30", `f.yaml:2: skew.kubelet: want 0 to 5 minor versions, got 30`},
		{"skew negative", "apiServers: 1", "apiServers: -1", `f.yaml:2: skew.apiServers: want 0 to 5`},
		{"bad version", "version: v1.35.4", "version: v1.35", `f.yaml:7: kubernetes[0].version: version "v1.35"`},
		{"no v", "version: v1.35.4", `version: "1.35.4"`, `f.yaml:7: kubernetes[0].version: version "1.35.4": write it as "v1.35.4"`},
		{"bad etcd", "etcd: v3.6.16\n    attacher: v4.12.0\n  -", "etcd: latest\n    attacher: v4.12.0\n  -",
			`f.yaml:10: kubernetes[0].etcd: version "latest"`},
		{"two rows", "version: v1.35.4", "version: v1.36.3", `f.yaml:12: kubernetes[1].version: version "v1.36.3" has two rows`},
		{"order", "version: v1.35.4", "version: v1.37.2", `f.yaml:12: kubernetes[1].version: version "v1.36.3" comes after "v1.37.2"`},
		{"default without row", "default: v1.36.3", "default: v1.36.4",
			`f.yaml:1: default: kubernetes version "v1.36.4" has no row in kubernetes; known: v1.35.4, v1.36.3`},
		{"attacher without row", "attacher: v4.12.0\n  -", "attacher: v4.10.0\n  -",
			`f.yaml:11: kubernetes[0].attacher: external-attacher "v4.10.0" has no row`},
		{"unknown gate", "MutableCSINodeAllocatableCount: {stage: ga", "MutableCSINodeAllocatable: {stage: ga",
			`f.yaml:14: kubernetes[1].gates.MutableCSINodeAllocatable: unknown feature gate`},
		{"a pre-release without its mark", "version: v1.36.3\n", "version: v1.36.3-rc.1\n", `f.yaml:12: kubernetes[1].preview: want true of v1.36.3-rc.1, got false`},
		{"a release with the mark of a pre-release", "version: v1.35.4\n", "version: v1.35.4\n    preview: true\n", `f.yaml:8: kubernetes[0].preview: want false of v1.35.4, got true`},
		{"toolchain", "version: v1.35.4\n", "version: v1.35.4\n    toolchain: 1.27\n", `f.yaml:8: kubernetes[0].toolchain: want`},
		{"bad toolchain", "version: v1.35.4\n", "version: v1.35.4\n    toolchain: latest\n", `f.yaml:8: kubernetes[0].toolchain: want one such as go1.27.3, got "latest"`},
		{"bad stage", "stage: beta", "stage: absent",
			`f.yaml:9: kubernetes[0].gates.MutableCSINodeAllocatableCount.stage: want alpha, beta or ga, got "absent"`},
		{"locked beta", "locked: false", "locked: true",
			`f.yaml:9: kubernetes[0].gates.MutableCSINodeAllocatableCount.locked: only a gate of stage ga`},
		{"unknown feature", "name: count-mutable", "name: count-mutible", `f.yaml:19: features[1].name: unknown feature "count-mutible"; known: period-stored, `},
		{"feature left out", "  - {name: count-mutable, component: kube-apiserver, since: v1.33, gate: MutableCSINodeAllocatableCount, does: \"{} a\", without: \"{} b\"}\n",
			"", `f.yaml:17: features: feature "count-mutable" has no row`},
		{"feature twice", "name: count-mutable", "name: period-stored", `f.yaml:19: features[1].name: feature "period-stored" has two rows`},
		{"component of a feature", "component: csi-attacher", "component: attacher",
			`f.yaml:23: features[5].component: want one of kube-apiserver, kubelet, csi-attacher, got "attacher"`},
		{"gate of a feature", "since: v4.10, gate: MutableCSINodeAllocatableCount", "since: v4.10, gate: Mutable",
			`f.yaml:23: features[5].gate: unknown feature gate "Mutable"`},
		{"patch for minor", "since: v4.10", "since: v4.10.0", `f.yaml:23: features[5].since: minor release "v4.10.0": want vMAJOR.MINOR`},
		{"minor without v", "since: v4.10", "since: 4.10", `f.yaml:23: features[5].since: minor release "4.10": want vMAJOR.MINOR`},
		{"word for minor", "since: v4.10", "since: v4.x", `f.yaml:23: features[5].since: minor release "v4.x": "x" is not a number`},
		{"no place for the component", `since: v4.10, gate: MutableCSINodeAllocatableCount, does: "{} a"`, `since: v4.10, gate: MutableCSINodeAllocatableCount, does: "it does"`,
			`f.yaml:23: features[5].does: want {} in "it does"`},
		{"anchor", "gates: {}", "gates: &none {}", `f.yaml:5: attachers[0].gates: anchors and aliases`},
		{"second document", "default: v1.36.3", "default: v1.36.3\n---\ndefault: v1.36.3", `want one document`},
		{"syntax", "gates: {}", "gates: {", `: not YAML: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(good, c.old) {
				t.Fatalf("nothing to replace: %q", c.old)
			}
			table, err := Load("f.yaml", []byte(strings.Replace(good, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want an error with %q, got: %v", c.want, err)
			}
			if table.Kubernetes != nil {
				t.Error("a refused table must not be returned")
			}
		})
	}
	if _, err := Load("f.yaml", nil); err == nil || !strings.Contains(err.Error(), "f.yaml:1: the file is empty") {
		t.Errorf("empty file: got %v", err)
	}
}

func TestLoadReportsAllErrors(t *testing.T) {
	_, err := Load("f.yaml", []byte(strings.NewReplacer("kubelet: 3", "kubelet: 9", "stage: beta", "stage: gamma").Replace(good)))
	if err == nil || !strings.Contains(err.Error(), "skew.kubelet") || !strings.Contains(err.Error(), "gamma") {
		t.Errorf("want both errors, got: %v", err)
	}
}

func TestParseAndCompare(t *testing.T) {
	for _, c := range []struct {
		a, b Version
		want int
	}{
		{"v1.36.3", "v1.36.3", 0}, {"v1.9.0", "v1.10.0", -1}, {"v1.36.10", "v1.36.9", 1}, {"v2.0.0", "v1.99.9", 1},
		{"v1.38.0-beta.0", "v1.38.0", -1}, {"v1.38.0", "v1.38.0-beta.0", 1}, {"v1.38.0-alpha.1", "v1.38.0-beta.0", -1}, {"v1.38.1-rc.0",
			"v1.38.0", 1},
	} {
		if got := c.a.Compare(c.b); got != c.want {
			t.Errorf("%s against %s: want %d, got %d", c.a, c.b, c.want, got)
		}
	}
	for _, s := range []string{"", "v1", "1.36", "v1.x.3", "v1.36.x", "main"} {
		if v, err := Parse(s); err == nil {
			t.Errorf("parse %q: want an error, got %q", s, v)
		}
	}
	if v, err := Parse("1.36.3"); err != nil || v != "v1.36.3" || v.Major() != 1 || v.Minor() != 36 || v.Number() != "1.36.3" {
		t.Errorf("parse 1.36.3: got %q %v", v, err)
	}
}
