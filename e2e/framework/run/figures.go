package run

import (
	"fmt"
	"time"

	"headroom/drivers"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// Override replaces the declared figures that a scenario gives. What comes out must be a policy that a driver can have.
func Override(declared drivers.Figures, by scenario.Figures) (drivers.Figures, error) {
	for _, f := range []struct {
		to   *time.Duration
		from history.Duration
	}{
		{&declared.MinInterval, by.MinInterval}, {&declared.CacheAge, by.CacheAge}, {&declared.LastGoodLife, by.LastGoodLife},
		{&declared.StepInterval, by.StepInterval},
	} {
		if f.from > 0 {
			*f.to = time.Duration(f.from)
		}
	}
	if by.Step > 0 {
		declared.Step = by.Step
	}
	switch d := declared; {
	case d.CacheAge < d.MinInterval:
		return d, fmt.Errorf("driver figures: cacheAge %s is less than minInterval %s", d.CacheAge, d.MinInterval)
	case d.LastGoodLife < d.CacheAge:
		return d, fmt.Errorf("driver figures: lastGoodLife %s is less than cacheAge %s", d.LastGoodLife, d.CacheAge)
	case (d.Step > 0) != (d.StepInterval > 0):
		return d, fmt.Errorf("driver figures: step %d with a stepInterval of %s", d.Step, d.StepInterval)
	}
	return declared, nil
}
