package invariants

import (
	"time"

	"headroom/e2e/invariants/model"
)

// waits are the stretches in which pods waited for the scheduler, as they end. What is said of one may depend on all of it.
type waits struct{ over backlog[*model.Wait] }

func (w *waits) observe(_ *model.Model, s *model.Step) {
	for _, x := range s.Over {
		w.over.push(x)
	}
}

// due takes out those that ended by to. The end of the history ends those that last.
func (w *waits) due(m *model.Model, to time.Duration) []*model.Wait {
	out := w.over.due(func(x *model.Wait) bool { return x.To.At <= to })
	if to == model.Forever {
		out = append(out, m.Waiting()...)
	}
	return out
}
