package observe

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"headroom/e2e/framework/history"
)

var update = flag.Bool("update", false, "write the golden files anew")

// wall is the wall clock of the tests, s seconds after 10:00.
func wall(s float64) time.Time {
	return time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
}

func at(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

var steadyPairs = []ClockPair{{at(1000), wall(0)}, {at(1001), wall(1)}, {at(1006), wall(6)}}

func TestAuditGolden(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	log, golden := filepath.Join("testdata", "audit.log"), filepath.Join("testdata", "audit.golden.jsonl")
	for range 2 { // again: the file is replaced
		g.Expect(Audit(log, dir, "run-1", steadyPairs)).To(Succeed())
	}
	var got strings.Builder
	events := readSource(t, dir, history.SourceAudit)
	for i, e := range events {
		g.Expect(e.Seq).To(BeEquivalentTo(i+2), "the open record is the first")
		if i > 0 {
			g.Expect(e.At).To(BeNumerically(">=", events[i-1].At))
		}
		got.Write(history.Encode(e))
		got.WriteByte('\n')
	}
	if *update {
		g.Expect(os.WriteFile(golden, []byte(got.String()), 0o644)).To(Succeed())
	}
	want, err := os.ReadFile(golden)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Split(got.String(), "\n")).To(Equal(strings.Split(string(want), "\n")))

	out := filepath.Join(t.TempDir(), "history.jsonl")
	g.Expect(history.Merge(dir, history.Header{Run: "run-1"}, out)).To(Succeed())
	merged, err := history.Open(out)
	g.Expect(err).NotTo(HaveOccurred())
	defer merged.Close()
	n := 0
	for e, err := range merged.All() {
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(e.Source).To(Equal(history.SourceAudit), "no gap made up by the merge")
		n++
	}
	g.Expect(n).To(Equal(len(events) + 2))
}

func TestAuditLines(t *testing.T) {
	const line = `{"kind":"Event","auditID":"a","stage":"STAGE","verb":"update","user":{"username":"u"},"objectRef":{"apiGroup":"storage.k8s.io",` +
		`"resource":"csinodes","name":"n1"},"responseStatus":{"code":CODE},"requestReceivedTimestamp":"2026-03-01T10:00:01Z",` +
		`"stageTimestamp":"2026-03-01T10:00:02Z"}`
	with := func(stage, code string) string {
		return strings.NewReplacer("STAGE", stage, "CODE", code).Replace(line)
	}
	for _, tc := range []struct {
		name, log string
		want      []history.Phase
	}{
		{"empty", "", nil},
		{"ok", with("ResponseComplete", "201") + "\n", []history.Phase{history.Invoke, history.OK}},
		{"refused", with("ResponseComplete", "404") + "\n", []history.Phase{history.Invoke, history.Fail}},
		{"server error", with("ResponseComplete", "500") + "\n", []history.Phase{history.Invoke, history.Unknown}},
		{"no status", with("ResponseComplete", "0") + "\n", []history.Phase{history.Invoke, history.Unknown}},
		{"panic", with("Panic", "200") + "\n", []history.Phase{history.Invoke, history.Unknown}},
		{"never completed", with("RequestReceived", "0") + "\n", []history.Phase{history.Invoke, history.Unknown}},
		{"twice", strings.Repeat(with("ResponseComplete", "200")+"\n", 2), []history.Phase{history.Invoke, history.OK}},
		{"whole, without a line end", with("ResponseComplete", "200"), []history.Phase{history.Invoke, history.OK}},
		{"torn", with("ResponseComplete", "200")[:90], []history.Phase{history.Gap}},
		{"not JSON", "oops\n", []history.Phase{history.Gap}},
		{"not an audit event", `{"kind":"Event"}` + "\n", []history.Phase{history.Gap}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			dir, log := t.TempDir(), filepath.Join(t.TempDir(), "audit.log")
			g.Expect(os.WriteFile(log, []byte(tc.log), 0o600)).To(Succeed())
			g.Expect(Audit(log, dir, "run-1", steadyPairs)).To(Succeed())
			var got []history.Phase
			for _, e := range readSource(t, dir, history.SourceAudit) {
				got = append(got, e.Phase)
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestAuditSaysWhatIsMissing(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Audit(filepath.Join(t.TempDir(), "absent.log"), t.TempDir(), "run-1", steadyPairs)).To(MatchError(ContainSubstring("absent.log")))
	g.Expect(Audit(filepath.Join("testdata", "audit.log"), t.TempDir(), "run-1", nil)).To(MatchError(ContainSubstring("no clock pairs")))
}

func TestClock(t *testing.T) {
	// The wall clock runs with the monotonic one, 1000 s behind; each case changes it somewhere.
	pairs := func(walls ...float64) []ClockPair {
		var p []ClockPair
		for i, w := range walls {
			p = append(p, ClockPair{at(1000 + float64(i)), wall(w)})
		}
		return p
	}
	back := pairs(0, 1, 2, 3, 4, 2.5, 3.5, 4.5, 5.5) // set back by 2.5 s between 1004 and 1005
	for _, tc := range []struct {
		name       string
		pairs      []ClockPair
		wall       float64
		hint, want float64
	}{
		{"on a pair", pairs(0, 1, 2), 1, 1000, 1001},
		{"between pairs", pairs(0, 1, 2), 1.25, 1000, 1001.25},
		{"before the first", pairs(0, 1, 2), -3, 1000, 997},
		{"after the last", pairs(0, 1, 2), 7, 1000, 1007},
		{"slewed", pairs(0, 1.05, 2.1), 1.575, 1000, 1001.5},
		{"one pair", pairs(0), 5, 1000, 1005},
		{"forward, before the step", pairs(0, 1, 62, 63), 1.3, 1001, 1001.3},
		{"forward, after the step", pairs(0, 1, 62, 63), 61.6, 1001, 1001.6},
		{"forward, a time that never was: the nearest pair, before", pairs(0, 1, 62, 63), 4, 1001, 1004},
		{"forward, a time that never was: the nearest pair, after", pairs(0, 1, 62, 63), 60, 1001, 1000},
		{"back, shown once, before", back, 1.5, 1001, 1001.5},
		{"back, shown once, after", back, 5.25, 1007, 1007.75},
		{"back, shown twice, first", back, 3.5, 1003.4, 1003.5},
		{"back, shown twice, second", back, 3.5, 1005.9, 1006},
		{"back, just before the step", back, 4.2, 1004.1, 1004.2},
		{"back, just after the step", back, 2.2, 1004.3, 1004.7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := newClock(tc.pairs)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.at(wall(tc.wall), at(tc.hint)); (got - at(tc.want)).Abs() > time.Microsecond {
				t.Errorf("want %v, got %v", at(tc.want), got)
			}
		})
	}
}

func TestAuditFollowsTheWallClockOverAStep(t *testing.T) {
	g := NewWithT(t)
	const line = `{"kind":"Event","auditID":"%","stage":"ResponseComplete","verb":"update","objectRef":{"apiGroup":"storage.k8s.io",` +
		`"resource":"csinodes","name":"n1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-03-01T10:00:RECV",` +
		`"stageTimestamp":"2026-03-01T10:00:STAGE"}` + "\n"
	var log strings.Builder
	// Written in this order; the clock was set back by 2.5 s in between, during the third request.
	for _, l := range [][3]string{{"1", "03.2Z", "03.3Z"}, {"2", "03.9Z", "04.1Z"}, {"3", "04.2Z", "02.4Z"}, {"4", "03.3Z", "03.4Z"}} {
		log.WriteString(strings.NewReplacer("%", l[0], "RECV", l[1], "STAGE", l[2]).Replace(line))
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "audit.log")
	g.Expect(os.WriteFile(file, []byte(log.String()), 0o600)).To(Succeed())
	pairs := []ClockPair{
		{at(1000), wall(0)}, {at(1001), wall(1)}, {at(1002), wall(2)}, {at(1003), wall(3)}, {at(1004), wall(4)},
		{at(1005), wall(2.5)}, {at(1006), wall(3.5)}, {at(1007), wall(4.5)},
	}
	g.Expect(Audit(file, dir, "run-1", pairs)).To(Succeed())
	var got []string
	for _, e := range readSource(t, dir, history.SourceAudit) {
		got = append(got, string(e.Phase)+" "+e.Op+" "+e.At.Round(time.Millisecond).String())
	}
	g.Expect(got).To(Equal([]string{
		"invoke 1 16m43.2s", "ok 1 16m43.3s", "invoke 2 16m43.9s", "ok 2 16m44.1s", "invoke 3 16m44.2s", "ok 3 16m44.9s",
		"invoke 4 16m45.8s", "ok 4 16m45.9s",
	}))
}
