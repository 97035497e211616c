package local

import (
	"context"
	"fmt"
	"net/http"
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
	value, err := c.readCounter(ctx, fmt.Sprintf("https://127.0.0.1:%d/metrics", n.port), history.MetricRejections, labels)
	if err != nil {
		fmt.Fprintf(os.Stderr, "headroom: cell: metrics of kubelet@%s: %v\n", n.name, err)
		return
	}
	c.metrics.Write(history.Event{
		Phase: history.Observed, Node: n.name, Key: "kubelet@" + n.name,
		Body: history.Encode(history.Metric{Name: history.MetricRejections, Labels: labels, Value: value}),
	})
}

// readCounter asks a component for one counter, as the administrator.
func (c *cell) readCounter(ctx context.Context, url, name string, labels map[string]string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.adminHTTP.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return observe.Counter(resp.Body, name, labels)
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
