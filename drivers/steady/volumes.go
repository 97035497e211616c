package steady

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"headroom/drivers/bindmount"
)

// errPublishedOtherwise says that something else is mounted at the target: another volume, or the same with another capability.
var errPublishedOtherwise = errors.New("published there otherwise")

// publication is one target path; its record in the state directory outlives the process.
type publication struct {
	Volume   string `json:"volume"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly"`
}

// volumes are the folders of a node's volumes and where they are mounted:
//
//	<state>/volumes/<hash of handle>      the data; it stays when a volume leaves, as data does
//	<state>/published/<hash of target>    one publication, written before the mount and removed after it
type volumes struct {
	dir string
	mu  sync.Mutex
}

func newVolumes(stateDir string) *volumes { return &volumes{dir: stateDir} }

// name is a file name for any handle or path.
func name(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

func (v *volumes) record(target string) string {
	return filepath.Join(v.dir, "published", name(target))
}

func (v *volumes) publish(p publication) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	p.Target = filepath.Clean(p.Target)
	mounted, err := bindmount.Count(p.Target)
	if err != nil {
		return err
	}
	if mounted > 0 {
		was, err := v.read(v.record(p.Target))
		if err != nil {
			return fmt.Errorf("target %q is a mount of something else: %w: %w", p.Target, errPublishedOtherwise, err)
		}
		if was != p {
			return fmt.Errorf("target %q has volume %q, read-only %t; want volume %q, read-only %t: %w",
				p.Target, was.Volume, was.ReadOnly, p.Volume, p.ReadOnly, errPublishedOtherwise)
		}
		return nil
	}
	source := filepath.Join(v.dir, "volumes", name(p.Volume))
	for _, dir := range []string{source, p.Target, filepath.Join(v.dir, "published")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(v.record(p.Target), b, 0o644); err != nil {
		return err
	}
	return bindmount.Bind(source, p.Target, p.ReadOnly)
}

func (v *volumes) unpublish(target string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	target = filepath.Clean(target)
	if err := bindmount.Remove(target); err != nil {
		return err
	}
	if err := os.Remove(v.record(target)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// inUse counts the volumes that are mounted now. Records whose mount is gone (the machine restarted) do not count, nor do unreadable ones.
func (v *volumes) inUse() int64 {
	records, err := filepath.Glob(filepath.Join(v.dir, "published", "*"))
	if err != nil {
		return 0
	}
	seen := map[string]bool{}
	for _, path := range records {
		p, err := v.read(path)
		if err != nil {
			continue
		}
		if n, err := bindmount.Count(p.Target); err == nil && n > 0 {
			seen[p.Volume] = true
		}
	}
	return int64(len(seen))
}

func (v *volumes) read(path string) (publication, error) {
	var p publication
	b, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(b, &p)
}
