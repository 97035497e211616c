package local

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/observe"
)

// metricsTimeout bounds one reading: a kubelet that is paused does not answer, and nobody waits for that.
const metricsTimeout = 2 * time.Second

// readMetrics records what a node's kubelet has counted, while it still knows. A kubelet that does not answer leaves no reading.
func (c *cell) readMetrics(ctx context.Context, n *node) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	labels := map[string]string{"reason": history.RejectionReason}
	var value float64
	body, err := c.fetchMetrics(ctx, n.port)
	if err == nil {
		defer body.Close()
		value, err = observe.Counter(body, history.MetricRejections, labels)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "headroom: cell: metrics of kubelet@%s: %v\n", n.name, err)
		return
	}
	c.metrics.Write(history.Event{
		Phase: history.Observed, Node: n.name, Key: "kubelet@" + n.name,
		Body: history.Encode(history.Metric{Name: history.MetricRejections, Labels: labels, Value: value}),
	})
}

// readAllMetrics reads those of all nodes at once, before the end.
func (c *cell) readAllMetrics() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.adminHTTP == nil {
		return // the cell ends before it was up
	}
	var group sync.WaitGroup
	for _, n := range c.nodes {
		group.Go(func() { c.readMetrics(context.Background(), n) })
	}
	group.Wait()
}
