package versions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSkew(t *testing.T) {
	skew := Embedded().Skew
	for _, c := range []struct {
		change map[string]Version
		want   string // "" is supported
	}{
		{nil, ""},
		{map[string]Version{"kubelet": "v1.35.4"}, ""},
		{map[string]Version{"kubelet": "v1.33.13"}, ""},
		{map[string]Version{"kubelet": "v1.36.0"}, ""}, // patch versions do not count
		{map[string]Version{"kubelet": "v1.36.9"}, ""},
		{map[string]Version{"kubelet": "v1.32.13"}, "kubelet v1.32.13 with kube-apiserver v1.36.3 is not supported: kubelet may be up to 3 minor versions older than kube-apiserver, not 4"},
		{map[string]Version{"kubelet": "v1.37.2"}, "kubelet must not be newer than kube-apiserver"},
		{map[string]Version{"kube-scheduler": "v1.35.4"}, ""},
		{map[string]Version{"kube-scheduler": "v1.34.4"}, "kube-scheduler may be up to 1 minor version older than kube-apiserver, not 2"},
		{map[string]Version{"kube-controller-manager": "v1.37.2"}, "kube-controller-manager must not be newer than kube-apiserver"},
		{map[string]Version{"kube-apiserver": "v1.37.2"}, ""},
		{map[string]Version{"kube-apiserver": "v2.36.0"}, "both must be of one major version"},
		{map[string]Version{"csi-attacher": "v4.11.0"}, ""}, // no policy
	} {
		combination, err := Default().Of().With(c.change)
		if err != nil {
			t.Fatal(err)
		}
		err = skew.Check(combination)
		var broken *SkewError
		if (c.want == "") != (err == nil) || err != nil && (!errors.As(err, &broken) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: want %q, got %v", c.change, c.want, err)
		}
	}
	both, err := Default().Of().With(map[string]Version{"kubelet": "v1.37.2", "kube-scheduler": "v1.34.4"})
	if err != nil {
		t.Fatal(err)
	}
	if err := skew.Check(both); err == nil || strings.Count(err.Error(), "not supported") != 2 {
		t.Errorf("two broken rules: want both named, got %v", err)
	}
	if _, err := both.With(map[string]Version{"kublet": "v1.36.3"}); err == nil || !strings.Contains(err.Error(), `component "kublet" has no version of its own; known: kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, csi-attacher`) {
		t.Errorf("an unknown component: got %v", err)
	}
}

func TestUpgradeOfTheServer(t *testing.T) {
	skew := Embedded().Skew
	for _, c := range []struct {
		from, to Version
		want     string
	}{
		{"v1.35.4", "v1.36.3", ""}, {"v1.36.3", "v1.36.9", ""}, {"v1.36.3", "v1.36.3", ""},
		{"v1.34.4", "v1.36.3", "one minor version at a time, not 2"},
		{"v1.36.3", "v1.35.4", "no rollback of a minor version"},
		{"v1.36.3", "v2.0.0", "one major version"},
	} {
		if err := skew.Upgrade(c.from, c.to); (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: want %q, got %v", c.from, c.to, c.want, err)
		}
	}
}

func TestVariants(t *testing.T) {
	want := []Variant{{Version: "v4.11.0"}, {"v4.11.0", "true"}, {Version: "v4.12.0"}, {Version: "v4.13.0"}}
	if got := Embedded().Variants(); !slices.Equal(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
	if got := Embedded().Variants("v4.11.0"); !slices.Equal(got, want[:2]) {
		t.Errorf("of v4.11.0: want %v, got %v", want[:2], got)
	}
	for _, c := range Embedded().Supported(Embedded().Kubernetes, "v4.12.0") {
		if c.Attacher != "v4.12.0" {
			t.Errorf("%s: want only the attacher that was named", c)
		}
	}
}

// TestSupported holds the generated list against the policy, written down a second time: none is missing, none too many.
func TestSupported(t *testing.T) {
	table := Embedded()
	got := table.Supported(table.Kubernetes)
	seen := map[Combination]bool{}
	for _, c := range got {
		if seen[c] {
			t.Errorf("%s is listed twice", c)
		}
		seen[c] = true
		if c.Scheduler != c.ControllerManager {
			t.Errorf("%s: controller manager and scheduler have one version", c)
		}
	}
	count := 0
	for _, api := range table.Known() {
		for _, control := range table.Known() {
			for _, node := range table.Known() {
				control, older := api.Minor()-control.Minor(), api.Minor()-node.Minor()
				if control >= 0 && control <= 1 && older >= 0 && older <= 3 {
					count += len(table.Variants())
				}
			}
		}
	}
	// By hand: API server 1.38, 1.37, 1.36, 1.35: 2 x 4 each; 1.34: 2 x 3; 1.33: 2 x 2; 1.32: 1; with 4 attachers each.
	if byHand := (4*8 + 6 + 4 + 1) * 4; len(got) != count || count != byHand {
		t.Errorf("want %d combinations, by hand %d, got %d", count, byHand, len(got))
	}
}

// TestCoverMeetsEveryPair is the proof that the covering set covers: every pair of component versions that is supported meets in it.
func TestCoverMeetsEveryPair(t *testing.T) {
	table := Embedded()
	for _, c := range []struct {
		from, to Version
		most     int // a set may not be larger
	}{
		{"", "", 31}, {"v1.34.4", "", 20}, {"v1.35.4", "v1.36.3", 9}, {"v1.36.3", "v1.36.3", 4},
	} {
		supported := table.Supported(table.Between(c.from, c.to))
		cover := Cover(supported)
		met := map[pair]bool{}
		for _, one := range cover {
			if !slices.Contains(supported, one) {
				t.Errorf("%s is not supported", one)
			}
			for _, p := range pairs(one) {
				met[p] = true
			}
		}
		for _, one := range supported {
			for _, p := range pairs(one) {
				if !met[p] {
					t.Errorf("%s to %s: %s and %s never meet", c.from, c.to, p[0], p[1])
					met[p] = true // once is enough
				}
			}
		}
		for i := range cover { // nothing is superfluous
			less := map[pair]bool{}
			for j, one := range cover {
				for _, p := range pairs(one) {
					less[p] = less[p] || i != j
				}
			}
			if !slices.ContainsFunc(pairs(cover[i]), func(p pair) bool { return !less[p] }) {
				t.Errorf("%s to %s: %s brings nothing that the others do not", c.from, c.to, cover[i])
			}
		}
		if least := least(supported); len(cover) > c.most || len(cover) < least {
			t.Errorf("%s to %s: want %d to %d combinations of %d, got %d", c.from, c.to, least, c.most, len(supported), len(cover))
		}
		if again := Cover(supported); !slices.Equal(cover, again) {
			t.Errorf("%s to %s: two choices from one list differ", c.from, c.to)
		}
	}
	if got := Cover(nil); len(got) != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}

// least is what no covering set can go below: the number of pairs of the two axes that have the most.
func least(supported []Combination) int {
	most := 0
	for i := range axes {
		for j := range i {
			met := map[pair]bool{}
			for _, c := range supported {
				met[pair{axes[i](c), axes[j](c)}] = true
			}
			most = max(most, len(met))
		}
	}
	return most
}

// TestCoverSeesAMissingPair breaks a covering set on purpose: what the proof above looks for is found.
func TestCoverSeesAMissingPair(t *testing.T) {
	table := Embedded()
	cover := Cover(table.Supported(table.Kubernetes))
	for i := range cover {
		met := map[pair]bool{}
		for j, c := range cover {
			for _, p := range pairs(c) {
				met[p] = met[p] || i != j
			}
		}
		if !slices.ContainsFunc(pairs(cover[i]), func(p pair) bool { return !met[p] }) {
			t.Errorf("without %s nothing is missing", cover[i])
		}
	}
}

func TestShards(t *testing.T) {
	table := Embedded()
	all := Cover(table.Supported(table.Kubernetes))
	for of := 1; of <= len(all)+2; of++ {
		var joined []Combination
		least, most := len(all), 0
		for i := 1; i <= of; i++ {
			part := Shard{i, of}.Part(all)
			joined = append(joined, part...)
			least, most = min(least, len(part)), max(most, len(part))
		}
		if !slices.Equal(joined, all) || most-least > 1 {
			t.Errorf("%d shards: want each combination once in parts of one size, got %d in parts of %d to %d", of, len(joined), least, most)
		}
	}
	for in, want := range map[string]string{
		"1/1": "", "2/5": "", "5/5": "", "0/5": "want an index from 1", "6/5": "want an index from 1", "1/0": "want an index", "2": "want INDEX/NUMBER",
		"": "want INDEX/NUMBER", "a/b": "want INDEX/NUMBER", "1/2x": "want INDEX/NUMBER", "1/2/3": "want INDEX/NUMBER", "-1/2": "want an index", "+1/2": "want INDEX/NUMBER",
	} {
		s, err := ParseShard(in)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got %v, %v", in, want, s, err)
		}
	}
}

func TestCombinationNames(t *testing.T) {
	c := Default().Of()
	if got, want := c.String(), "api1.36.3-ctl1.36.3-kubelet1.36.3-attacher4.12.0"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	c.Scheduler, c.AttacherGate = "v1.35.4", "false"
	if got, want := c.String(), "api1.36.3-ctl1.36.3-sched1.35.4-kubelet1.36.3-attacher4.12.0-gate-false"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got, want := fmt.Sprint(c.Gates()), "map[csi-attacher:map[MutableCSINodeAllocatableCount:false]]"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got := c.Ran()["csi-attacher/"+MutableCSINodeAllocatableCount]; got != "false" {
		t.Errorf("the gate as a header has it: want false, got %q", got)
	}
	names := map[string]bool{}
	table := Embedded()
	for _, c := range table.Supported(table.Kubernetes) {
		names[c.String()] = true
	}
	if want := len(table.Supported(table.Kubernetes)); len(names) != want {
		t.Errorf("want %d different names, got %d", want, len(names))
	}
}

func TestCheckGate(t *testing.T) {
	const gate = MutableCSINodeAllocatableCount
	for _, c := range []struct {
		component string
		v         Version
		gate      string
		on        bool
		want      string // "" is right
	}{
		{"kubelet", "v1.36.3", gate, true, ""},
		{"kubelet", "v1.36.3", gate, false, "kubelet v1.36.3 has MutableCSINodeAllocatableCount locked to true and would exit"},
		{"kubelet", "v1.35.4", gate, false, ""},
		{"kube-apiserver", "v1.33.13", gate, true, ""},
		{"kube-apiserver", "v1.32.13", gate, true, `kube-apiserver v1.32.13 has no feature gate "MutableCSINodeAllocatableCount" that Headroom knows`},
		{"kubelet", "v1.36.3", "Mutable", true, `has no feature gate "Mutable"`},
		{"csi-attacher", "v4.11.0", gate, true, ""}, {"csi-attacher", "v4.12.0", gate, false, ""},
		{"csi-attacher", "v4.12.0", VolumeLimitScaling, true, "csi-attacher v4.12.0 has no feature gate"},
	} {
		err := Embedded().CheckGate(c.component, c.v, c.gate, c.on)
		var bad *GateError
		if (c.want == "") != (err == nil) || err != nil && (!errors.As(err, &bad) || bad.Remedy() == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s %s=%t: want %q, got %v", c.component, c.v, c.gate, c.on, c.want, err)
		}
	}
}
