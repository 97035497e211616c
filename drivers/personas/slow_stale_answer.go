package personas

import (
	"context"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name: "slow-stale-answer",
		Doc:  "answers the value before a change once more after it answered the new one, as when a slow look-up ends after a quick one and wins",
		Root: "no-stale-overwrite",
		Try:  []string{"foreign-attachments"},
		MayAlso: []string{
			"answer-within-quota", "quota-to-answer", "gradual-recovery", "no-stale-overwrite-kubelet", "recovers-after-heal", "foreign-attachments",
		},
		Mistakes: func() steady.Mistakes {
			var slow slowLookUp
			return steady.Mistakes{
				NodeInfo: func(_ context.Context, right *csi.NodeGetInfoResponse, _ bool) (*csi.NodeGetInfoResponse, error) {
					right.MaxVolumesPerNode = slow.after(right.MaxVolumesPerNode)
					return right, nil
				},
			}
		},
	})
}

// slowLookUp brings a value back that a newer one replaced.
type slowLookUp struct {
	mu            sync.Mutex
	newest, older int64
}

// after returns the value before the last change the first time that nothing changed since, and right otherwise.
func (s *slowLookUp) after(right int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if right != s.newest {
		s.newest, s.older = right, s.newest
		return right
	}
	late := s.older
	s.older = 0
	if late == 0 {
		return right
	}
	return late
}
