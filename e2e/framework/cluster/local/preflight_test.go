package local

import (
	"bytes"
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"headroom/e2e/framework/observe"
	"headroom/e2e/framework/preflight"
	"headroom/e2e/framework/versions"
)

func preflightSource(client kubernetes.Interface) preflight.Source {
	return preflight.Source{Client: client, Get: func(ctx context.Context, path string) ([]byte, error) {
		return client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	}}
}

// lookAt is what `headroom preflight` finds.
func lookAt(t *testing.T, client kubernetes.Interface, o preflight.Options) (preflight.Facts, preflight.Result) {
	t.Helper()
	facts, err := preflight.Gather(t.Context(), preflightSource(client))
	if err != nil {
		t.Fatal(err)
	}
	result, err := preflight.Judge(facts, o)
	if err != nil {
		t.Fatal(err)
	}
	return facts, result
}

// testPreflight looks at the cell as `headroom preflight` does at any cluster.
func testPreflight(t *testing.T, cell *testCluster) {
	look := func(o preflight.Options) (preflight.Facts, preflight.Result) {
		t.Helper()
		return lookAt(t, cell.client, o)
	}
	rules := func(r preflight.Result) (all []string) {
		for _, f := range r.Cluster {
			all = append(all, f.Rule)
		}
		for _, d := range r.Drivers {
			for _, f := range d.Findings {
				all = append(all, f.Rule)
			}
		}
		return all
	}
	facts, result := look(preflight.Options{})
	if facts.Server != cell.options.Versions["kube-apiserver"] || len(facts.Nodes) != 3 || !facts.Gate.Known || len(facts.Unread) != 0 {
		t.Errorf("facts: got %+v", facts)
	}
	if len(facts.Drivers) != 1 || facts.Drivers[0].Name != testDriver || len(facts.Drivers[0].Entries) != 2 {
		t.Fatalf("drivers: got %+v", facts.Drivers)
	}
	for _, e := range facts.Drivers[0].Entries {
		if e.Count == nil || *e.Count != testLimit || len(e.Writers) != 0 {
			t.Errorf("entry on %s: want count %d and no writer but the kubelet, got %+v", e.Node, testLimit, e)
		}
	}
	if got := rules(result); result.Safe != preflight.Go || !slices.Equal(got, []string{"period-unset"}) {
		t.Errorf("without a period: got %s, %q", result.Safe, got)
	}
	patch := func(value string) {
		t.Helper()
		body := []byte(`{"spec":{"nodeAllocatableUpdatePeriodSeconds":` + value + `}}`)
		if _, err := cell.client.StorageV1().CSIDrivers().Patch(t.Context(), testDriver, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch("3600")
	defer patch("null")
	if _, result := look(preflight.Options{}); result.Safe != preflight.AnswerOpen || !slices.Equal(rules(result), []string{"attacher-unseen"}) {
		t.Errorf("with a period: want the attacher, which is no pod, to be asked for, got %s, %q", result.Safe, rules(result))
	}
	if _, result := look(preflight.Options{Attacher: "v4.12.0"}); result.Safe != preflight.Go {
		t.Errorf("with an attacher that is known: got %s, %q", result.Safe, rules(result))
	}
	if _, result := look(preflight.Options{Attacher: "v4.11.0"}); result.Safe != preflight.AnswerNo || !slices.Equal(rules(result), []string{"no-error-code"}) {
		t.Errorf("with an old attacher: got %s, %q", result.Safe, rules(result))
	}
	// Kubelets are asked through the API server, as preflight must where a gate may be on or off.
	text, err := preflightSource(cell.client).Get(t.Context(), "/api/v1/nodes/n1/proxy/metrics")
	if err != nil {
		t.Fatal(err)
	}
	on, shown, err := observe.Gauge(bytes.NewReader(text), "kubernetes_feature_enabled", map[string]string{"name": versions.MutableCSINodeAllocatableCount})
	if err != nil || !shown || on != 1 {
		t.Errorf("the kubelet's gate: want it shown and on, got %v, %t, %v", on, shown, err)
	}
}
