package conformance

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func init() {
	run.Register(run.Requirement{
		ID:       "period-bounds",
		Claim:    "The API server refuses a CSIDriver's nodeAllocatableUpdatePeriodSeconds below 10 with 422, at creation and at a change, and stores 10 and more.",
		Source:   "KEP-4876, validation; kubernetes pkg/apis/storage/validation",
		Boundary: history.APIServer,
		Labels:   []string{run.LabelSmoke},
		Needs:    []string{versions.PeriodStored},
		Setup:    run.Setup{},
		Test:     periodBounds,
	})
}

func periodBounds(ctx context.Context, b *run.Bench) {
	drivers := b.Client.StorageV1().CSIDrivers()
	with := func(seconds int64) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "bounds." + b.Driver},
			Spec:       storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: &seconds},
		}
	}
	for _, low := range []int64{-1, 0, 1, 9} {
		_, err := drivers.Create(ctx, with(low), metav1.CreateOptions{})
		b.WantInvalid(fmt.Sprintf("create a CSIDriver with a period of %d s", low), err)
	}
	stored, err := drivers.Create(ctx, with(10), metav1.CreateOptions{})
	b.Check(err)
	defer func() { b.Check(drivers.Delete(context.WithoutCancel(ctx), stored.Name, metav1.DeleteOptions{})) }()
	wantPeriod(b, stored, 10)
	low, high := int64(9), int64(86400)
	changed := stored.DeepCopy()
	changed.Spec.NodeAllocatableUpdatePeriodSeconds = &low
	_, err = drivers.Update(ctx, changed, metav1.UpdateOptions{})
	b.WantInvalid("change a CSIDriver's period from 10 s to 9 s", err)
	changed.Spec.NodeAllocatableUpdatePeriodSeconds = &high
	_, err = drivers.Update(ctx, changed, metav1.UpdateOptions{})
	b.Check(err)
	stored, err = drivers.Get(ctx, stored.Name, metav1.GetOptions{})
	b.Check(err)
	wantPeriod(b, stored, high)
}

// wantPeriod checks the period that was stored.
func wantPeriod(b *run.Bench, d *storagev1.CSIDriver, want int64) {
	if got := d.Spec.NodeAllocatableUpdatePeriodSeconds; got == nil || *got != want {
		text := "none"
		if got != nil {
			text = fmt.Sprintf("%d s", *got)
		}
		b.Check(fmt.Errorf("period of CSIDriver %q: want %d s, got %s", d.Name, want, text))
	}
}
