package suite

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/run"
)

func TestAttemptTellsFailuresApart(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	late, expire := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer expire()
	fails := func(_ context.Context, b *run.Bench) { b.Check(errors.New("want 1, got 2")) }
	for name, tc := range map[string]struct {
		ctx         context.Context
		test        func(context.Context, *run.Bench)
		want        string // "" for no error
		environment bool
	}{
		"holds":                  {t.Context(), func(context.Context, *run.Bench) {}, "", false},
		"check":                  {t.Context(), fails, "want 1, got 2", false},
		"gomega":                 {t.Context(), func(context.Context, *run.Bench) { gomega.Expect(1).To(gomega.Equal(2)) }, "to equal", false},
		"environment":            {t.Context(), func(_ context.Context, b *run.Bench) { b.Check(cluster.Environment("x", errors.New("y"))) }, "y", true},
		"panic":                  {t.Context(), func(context.Context, *run.Bench) { panic("oops") }, "oops", true},
		"out of time":            {late, fails, "want 1, got 2", false},
		"interrupted":            {interrupted, fails, "interrupted", true},
		"interrupted, but holds": {interrupted, func(context.Context, *run.Bench) {}, "interrupted", true},
	} {
		t.Run(name, func(t *testing.T) {
			err := attempt(tc.ctx, run.Requirement{ID: "x", Test: tc.test}, &run.Bench{})
			var env *cluster.EnvironmentError
			if (err == nil) != (tc.want == "") || errors.As(err, &env) != tc.environment || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q (environment: %t), got %v", tc.want, tc.environment, err)
			}
		})
	}
}
