package invariants

// volumeGoldens are about making and deleting volumes.
var volumeGoldens = []golden{
	{"volume-made", "held-at-the-third-call", func(s *script) {
		s.create(1, 0.1, "v1", 14)
		s.create(2, 0.1, "v1", 14)
		s.create(4, 0.1, "v1", 0)
	}},
	{"volume-made", "held-then-given-up", func(s *script) { // the claim of v2 went before the bound
		s.create(1, 0.1, "v1", 0)
		s.create(2, 0.1, "v2", 13)
		s.create(3, 0.1, "v2", 13)
	}},
	{"volume-made", "violated-fails", func(s *script) {
		for _, at := range []float64{1, 2, 4, 8, 16} {
			s.create(at, 0.1, "v1", 13)
		}
	}},
	{"volume-made", "violated-hangs", func(s *script) {
		s.create(1, 10, "v1", 4)
		s.create(12, 10, "v1", 4)
	}},
	{"volume-made", "violated-made-late", func(s *script) {
		s.create(1, 0.1, "v1", 13)
		s.create(32, 0.1, "v1", 0)
	}},
	{"volume-made", "inconclusive-slow-harness", func(s *script) {
		s.create(1, 0.1, "v1", 13)
		s.beat(5, 4*second)
		s.create(20, 0.1, "v1", 13)
	}},
	{"volume-deleted", "held", func(s *script) {
		s.stored(1, "create", "v1", true)
		s.remove(5, "v1", 14)
		s.remove(6, "v1", 0)
		s.stored(6.05, "delete", "v1", true)
		s.remove(7, "v1", 0)
	}},
	{"volume-deleted", "violated-leaks", func(s *script) {
		s.stored(1, "create", "v1", true)
		s.remove(5, "v1", 0)
	}},
	{"volume-deleted", "violated-fails", func(s *script) {
		s.stored(1, "create", "v1", true)
		for _, at := range []float64{5, 6, 8, 12, 20} {
			s.remove(at, "v1", 13)
		}
	}},
	{"volume-deleted", "inconclusive-backend-lost-events", func(s *script) {
		s.stored(1, "create", "v1", true)
		s.remove(5, "v1", 0)
		s.lose(6, "backend")
	}},
}
