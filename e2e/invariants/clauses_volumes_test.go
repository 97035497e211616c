package invariants

import (
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// second is the unit of what heartbeats tell.
const second = time.Second

func TestVolumeMadeClauses(t *testing.T) {
	fails := func(between func(*script)) func(*script) {
		return func(s *script) {
			s.create(1, 0.1, "v1", 14)
			between(s)
			s.create(20, 0.1, "v1", 14)
		}
	}
	runClauses(t, "volume-made", []clause{
		{"nothing between", fails(func(*script) {}), Violated},
		{"the backend failed", fails(func(s *script) { s.stored(1.05, "create", "v1", false) }), ""},
		{"the controller was down", fails(func(s *script) {
			s.component(5, "driver-controller@d", "stopped")
			s.component(9, "driver-controller@d", "ready")
		}), ""},
		{"another volume was made", fails(func(s *script) { s.create(3, 0.1, "v2", 0) }), Violated},
	})
}

func TestVolumeDeletedClauses(t *testing.T) {
	leaks := func(s *script) { s.stored(1, "create", "v1", true); s.remove(5, "v1", 0) }
	fails := func(between func(*script)) func(*script) {
		return func(s *script) { s.remove(1, "v1", 14); between(s); s.remove(20, "v1", 14) }
	}
	runClauses(t, "volume-deleted", []clause{
		{"it leaks", leaks, Violated},
		{"the gate made the volume known", func(s *script) { s.header.Params.Driver.Limit = history.LimitGate; leaks(s) }, ""},
		{"written down a little later", func(s *script) { leaks(s); s.stored(6, "delete", "v1", true) }, Held},
		{"deleted by others, later", func(s *script) { leaks(s); s.stored(60, "delete", "v1", true) }, Violated},
		{"a volume of which the backend knows nothing", func(s *script) { s.remove(5, "v9", 0) }, ""},
		{"it fails", fails(func(*script) {}), Violated},
		{"the volume is in use", func(s *script) { s.remove(1, "v1", 9); s.remove(20, "v1", 9) }, ""},
		{"the backend failed", fails(func(s *script) { s.stored(1.05, "delete", "v1", false) }), ""},
	})
}
