package conformance

import (
	"context"
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func init() {
	run.Register(run.Requirement{
		ID: "period-dropped",
		Claim: "An API server without the feature drops a CSIDriver's nodeAllocatableUpdatePeriodSeconds, valid or not, and stores the rest; one that does not " +
			"know the field refuses it in server-side apply.",
		Source:   "KEP-4876, version skew; kubernetes pkg/registry/storage/csidriver, PrepareForCreate",
		Boundary: history.APIServer,
		Labels:   []string{run.LabelSmoke},
		Lacks:    []string{versions.PeriodStored},
		Setup:    run.Setup{},
		Test:     periodDropped,
	})
}

func periodDropped(ctx context.Context, b *run.Bench) {
	drivers := b.Client.StorageV1().CSIDrivers()
	for i, seconds := range []int64{10, 3} { // the second is invalid, where anybody looks
		made, err := drivers.Create(ctx, &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("dropped-%d.%s", i, b.Driver)},
			Spec:       storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: &seconds},
		}, metav1.CreateOptions{})
		b.Check(err)
		got := made.Spec.NodeAllocatableUpdatePeriodSeconds
		b.Check(drivers.Delete(ctx, made.Name, metav1.DeleteOptions{}))
		if got != nil {
			b.Check(fmt.Errorf("CSIDriver %q created with a period of %d s: want it dropped, got %d s stored", made.Name, seconds, *got))
		}
	}
	name := "applied." + b.Driver
	patch := fmt.Appendf(nil, `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":%q},"spec":{"nodeAllocatableUpdatePeriodSeconds":10}}`, name)
	made, err := drivers.Patch(ctx, name, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: "headroom"})
	rule := b.Rule(versions.PeriodStored)
	if rule.Version.MinorOf().Compare(rule.Since) < 0 {
		if err == nil || !strings.Contains(err.Error(), "field not declared in schema") {
			b.Check(fmt.Errorf("server-side apply of a period to %s: want an error that says %q, got %v", rule.Version, "field not declared in schema", err))
		}
		return
	}
	b.Check(err)
	b.Check(drivers.Delete(ctx, name, metav1.DeleteOptions{}))
	if got := made.Spec.NodeAllocatableUpdatePeriodSeconds; got != nil {
		b.Check(fmt.Errorf("CSIDriver %q applied with a period of 10 s: want it dropped, got %d s stored", name, *got))
	}
}
