package observe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"headroom/e2e/framework/history"
)

func TestMetricsWritesWhatChanges(t *testing.T) {
	g := NewWithT(t)
	dir, ticks := t.TempDir(), make(chan time.Time)
	answers := []any{"m 0\n", "m 0\n", "m 2\n", errors.New("refused"), errors.New("refused again"), "m 2\n", "other 1\n"}
	var asked atomic.Int32
	read := func(ctx context.Context) ([]byte, error) {
		i := min(int(asked.Add(1))-1, len(answers)-1)
		if err, ok := answers[i].(error); ok {
			return nil, err
		}
		return []byte(answers[i].(string)), nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- metrics(ctx, read, dir, "run-1", "kube-scheduler", []string{"m"}, ticks) }()
	for range answers { // each is taken once the reading before it is written
		ticks <- time.Time{}
	}
	cancel()
	g.Eventually(done, patience).Should(Receive(BeNil()))
	var got []history.Metric
	for _, e := range readSource(t, dir, history.PrefixMetric+"kube-scheduler") {
		var m history.Metric
		g.Expect(e.Decode(&m)).To(Succeed())
		g.Expect(e.Key).To(Equal("kube-scheduler"))
		g.Expect(m.Name).To(Equal("m"))
		m.Name = ""
		g.Expect(e.Phase == history.Fail).To(Equal(m.Error != ""))
		got = append(got, m)
	}
	g.Expect(got).To(Equal([]history.Metric{{}, {Value: 2}, {Error: "refused"}, {Value: 2}, {Absent: true}, {Absent: true}}))
}
