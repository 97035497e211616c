package invariants

import (
	"headroom/e2e/framework/history"
)

// golden is one history of fixtures/histories: <invariant>/<status>-<what>.jsonl.
type golden struct {
	invariant, file string
	write           func(*script)
}

var driverGoldens = []golden{
	{"answer-within-quota", "held-cache-age", func(s *script) {
		s.quota(0, 10, 2)
		s.info(1, 8)
		s.quota(20, 6, 0)
		s.info(25, 8) // 8 was true 10 s before
		s.info(40, 6)
	}},
	{"answer-within-quota", "held-last-good-in-outage-and-tail", func(s *script) {
		s.quota(0, 8, 0)
		s.info(1, 8)
		s.outage(5, "refuse")
		s.quota(6, 4, 0)
		s.info(50, 8) // the last good value may live for 60 s
		s.outage(52, "")
		s.info(60, 8) // healed 8 s ago: the cache may still hold it
		s.info(80, 4)
	}},
	{"answer-within-quota", "held-attached-in-outage", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.attach(2, "v1", history.Backend{Decision: history.Accepted, Quota: &history.Quota{Limit: 8, Attached: 4}})
		s.outage(5, "hang")
		s.quota(6, 3, 0)
		s.info(80, 4) // the last good value has expired; 4 are attached, so this admits nothing new
	}},
	{"answer-within-quota", "violated-more-than-attached-in-outage", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.attach(2, "v1", history.Backend{Decision: history.Accepted, Quota: &history.Quota{Limit: 8, Attached: 4}})
		s.outage(5, "hang")
		s.quota(6, 3, 0)
		s.info(80, 5)
	}},
	{"answer-within-quota", "violated-last-good-while-only-attach-fails", func(s *script) {
		s.quota(0, 8, 0)
		s.outage(5, "refuse", "attach")
		s.quota(10, 4, 0)
		s.info(30, 8) // the quota could be asked for all the time
	}},
	{"answer-within-quota", "held-floor-of-one", func(s *script) {
		s.quota(0, 3, 5)
		s.info(30, 1)
	}},
	{"answer-within-quota", "violated-stale", func(s *script) {
		s.quota(0, 8, 0)
		s.info(1, 8)
		s.quota(10, 4, 0)
		s.info(23, 8) // more than 10 s + slack after the drop
	}},
	{"answer-within-quota", "violated-last-good-after-heal", func(s *script) {
		s.quota(0, 8, 0)
		s.outage(5, "refuse")
		s.quota(6, 4, 0)
		s.outage(20, "")
		s.info(40, 8)
	}},
	{"answer-within-quota", "violated-last-good-too-old", func(s *script) {
		s.quota(0, 8, 0)
		s.outage(5, "hang")
		s.quota(6, 4, 0)
		s.info(70, 8)
	}},
	{"answer-within-quota", "violated-ignores-foreign", func(s *script) {
		s.quota(0, 8, 3)
		s.info(30, 8)
	}},
	{"answer-within-quota", "violated-unlimited", func(s *script) {
		s.quota(0, 8, 0)
		s.info(30, 0)
	}},
	{"answer-within-quota", "inconclusive-backend-lost-events", func(s *script) {
		s.quota(0, 8, 0)
		s.info(30, 9) // the quota may have been 9 where events are missing
		s.lose(31, "backend")
	}},

	{"never-unbounded", "held-outage-at-registration", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.outage(5, "refuse")
		s.register(10, true, "")
		s.info(10.2, 8)
	}},
	{"never-unbounded", "held-gate-failed-the-registration", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.info(2, 8)
		s.register(10, false, "NodeGetInfo: injected")
		s.infoFails(10.2, 14, false)
	}},
	{"never-unbounded", "held-before-quota-known", func(s *script) {
		s.info(0, 0)
		s.quota(1, 8, 0)
		s.get(2, 8)
		s.info(3, 8)
	}},
	{"never-unbounded", "violated-zero", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.outage(5, "error")
		s.info(10, 0)
	}},
	{"never-unbounded", "violated-negative", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.info(10, -1)
	}},
	{"never-unbounded", "violated-registration-failed", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.outage(5, "refuse")
		s.register(10, false, "rpc error: code = Unavailable")
		s.infoFails(10.2, 14, true)
	}},
	{"never-unbounded", "violated-registration-message", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.register(10, false, "RegisterPlugin failed at CSI.NodeGetInfo: no quota")
	}},
	{"never-unbounded", "violated-registration-hung", func(s *script) {
		s.quota(0, 8, 0)
		s.get(1, 8)
		s.outage(5, "hang")
		s.register(10, false, "context deadline exceeded")
		s.csi(10.1, 0, "csi/n1", s.op(), "NodeGetInfo", history.DriverSide, "", history.CSICall{}, history.CSICall{})
	}},

	{"attach-rechecked", "held", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 0)
		s.attach(1.02, "v1", accepted(1, 2))
		s.publish(2, "v2", 8)
		s.attach(2.02, "v2", refused(history.ReasonFull))
	}},
	{"attach-rechecked", "held-repeat-over-fallen-limit", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 0)
		s.attach(1.02, "v1", accepted(2, 2))
		s.quota(2, 1, 0)
		s.publish(3, "v1", 0)
		s.attach(3.02, "v1", accepted(2, 1)) // takes no second slot
	}},
	{"attach-rechecked", "violated-over-limit", func(s *script) {
		s.quota(0, 2, 0)
		s.attach(1, "v1", accepted(3, 2))
	}},
	{"attach-rechecked", "violated-ok-without-attach", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 0)
		s.quota(9, 3, 0)
	}},
	{"attach-rechecked", "violated-ok-after-detach", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 0)
		s.attach(1.02, "v1", accepted(1, 2))
		s.detach(2, "v1")
		s.publish(3, "v1", 0)
	}},
	{"attach-rechecked", "inconclusive-detach-raced", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 0)
		s.attach(1.02, "v1", accepted(1, 2))
		s.detach(1.05, "v1")
	}},

	{"class-is-honest", "held-full", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 8)
		s.attach(1.02, "v1", refused(history.ReasonFull))
	}},
	{"class-is-honest", "held-throttled-as-13", func(s *script) { // a missed "should" is advice
		s.quota(0, 2, 0)
		s.publish(1, "v1", 13)
		s.attach(1.02, "v1", history.Backend{Reason: history.ReasonThrottled, Status: 429})
	}},
	{"class-is-honest", "violated-full-as-13", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 13)
		s.attach(1.02, "v1", refused(history.ReasonFull))
	}},
	{"class-is-honest", "violated-missing-as-8", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 8)
		s.attach(1.02, "v1", refused(history.ReasonNoSuchVolume))
	}},
	{"class-is-honest", "violated-throttled-as-8", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 8)
		s.attach(1.02, "v1", history.Backend{Reason: history.ReasonThrottled, Status: 429})
	}},
	{"class-is-honest", "violated-outage-as-8", func(s *script) {
		s.quota(0, 2, 0)
		s.outage(0.5, "refuse")
		s.publish(1, "v1", 8)
	}},
	{"class-is-honest", "inconclusive-8-without-decision", func(s *script) {
		s.quota(0, 2, 0)
		s.publish(1, "v1", 8)
	}},
}
