package personas

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"headroom/drivers/steady"
)

func init() {
	register(Persona{
		Name:  "old-version-serves",
		Doc:   "answers, while a newer release holds the node's lease, from what it knew when it held the lease itself",
		Root:  "no-stale-overwrite",
		Try:   []string{"driver-old-version"},
		Chaos: Chaos{Faults: []string{"driver-rollback"}},
		MayAlso: []string{
			"answer-within-quota", "quota-to-answer", "gradual-recovery", "recovers-after-heal", "driver-old-version",
		},
		Mistakes: func() steady.Mistakes { return steady.Mistakes{Lease: ownKnowledge} },
	})
}

// ownKnowledge keeps what a release answers while it holds the lease in a file that newer releases leave alone.
func ownKnowledge(dir string, release int64, holds bool, right *csi.NodeGetInfoResponse) *csi.NodeGetInfoResponse {
	path := filepath.Join(dir, "release-"+strconv.FormatInt(release, 10)+".json")
	if holds {
		if b, err := json.Marshal(right.MaxVolumesPerNode); err == nil {
			_ = os.WriteFile(path, b, 0o644) // a mistake that cannot be made is not made
		}
		return right
	}
	var known int64
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &known) == nil && known > 0 {
		right.MaxVolumesPerNode = known
	}
	return right
}
