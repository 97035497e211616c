package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func TestVersionFlags(t *testing.T) {
	v := versionFlags{
		kubernetes: "1.36", components: []string{"kubelet=1.35", "csi-attacher=v4.11.0", "csi-provisioner=5.3"},
		gates: []string{"csi-attacher/" + versions.MutableCSINodeAllocatableCount + "=true", "kubelet/X=false", "kubelet/X=false"},
	}
	var o run.Options
	if err := v.choose(&o); err != nil {
		t.Fatal(err)
	}
	want := run.Options{
		Kubernetes: "v1.36.3", Components: map[string]versions.Version{"kubelet": "v1.35.4", "csi-attacher": "v4.11.0", "csi-provisioner": "v5.3.0"},
		Gates: map[string]map[string]bool{"csi-attacher": {versions.MutableCSINodeAllocatableCount: true}, "kubelet": {"X": false}},
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("want %+v, got %+v", want, o)
	}
	for _, c := range []struct {
		v    versionFlags
		want string
	}{
		{versionFlags{kubernetes: "1.20"}, `--kubernetes: kubernetes minor release "1.20" is not known; known: v1.32.13`},
		{versionFlags{components: []string{"kubelet"}}, `--component "kubelet": want COMPONENT=VERSION`},
		{versionFlags{components: []string{"=1.35"}}, `want COMPONENT=VERSION`},
		{versionFlags{components: []string{"kubelet=1.20"}}, `--component "kubelet=1.20": kubernetes minor release "1.20" is not known`},
		{versionFlags{components: []string{"csi-provisioner=5.1"}}, `external-provisioner version "v5.1" is not known; known: v5.3.0`},
		{versionFlags{components: []string{"csi-attacher=4.9"}}, `external-attacher version "v4.9" is not known; known: v4.11.0`},
		{versionFlags{components: []string{"kubelet=1.35", "kubelet=1.34"}}, `kubelet has version v1.35.4 already`},
		{versionFlags{gates: []string{"MutableCSINodeAllocatableCount=true"}}, `want COMPONENT/GATE=true or false`},
		{versionFlags{gates: []string{"kubelet/X=maybe"}}, `want COMPONENT/GATE=true or false`},
		{versionFlags{gates: []string{"kubelet/X=true", "kubelet/X=false"}}, `it is set to true already`},
	} {
		err := c.v.choose(&run.Options{})
		if usage := (usageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: want a usage error with %q, got %v", c.v, c.want, err)
		}
	}
}
