package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"headroom/e2e/framework/scenario"
)

// flipParams say what the period becomes.
type flipParams struct {
	// Seconds is the new nodeAllocatableUpdatePeriodSeconds; unset when left out.
	Seconds *int64 `yaml:"seconds,omitempty"`
}

func init() {
	define(Fault{
		Name: "period-flip", Targets: []scenario.Class{scenario.CSIDriver},
		Doc: "Somebody changes the period of the CSIDriver, or takes it away. Healing writes the former one.",
	}, flipParams{}, func(ctx context.Context, t Target, _ *rand.Rand, p *flipParams) (Heal, error) {
		drivers := t.Client.StorageV1().CSIDrivers()
		now, err := drivers.Get(ctx, t.Driver, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		before := now.Spec.NodeAllocatableUpdatePeriodSeconds
		set := func(ctx context.Context, seconds *int64) error {
			patch := `{"spec":{"nodeAllocatableUpdatePeriodSeconds":null}}`
			if seconds != nil {
				patch = fmt.Sprintf(`{"spec":{"nodeAllocatableUpdatePeriodSeconds":%d}}`, *seconds)
			}
			return t.Record("patch", "csidriver", t.Driver, "", func() error {
				_, err := drivers.Patch(ctx, t.Driver, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			})
		}
		if err := set(ctx, p.Seconds); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return set(ctx, before) }, nil
	})
}
