package kind

import (
	"bytes"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/observe"
)

// metricsPorts are the components whose metrics can be read from outside: see schedulerPatch.
var metricsPorts = map[string]string{"kube-scheduler": "10259"}

// Metrics reads the metrics of a component of the control plane, in Prometheus' text format. The API server asks it, which reaches it from everywhere.
func (c *Cluster) Metrics(ctx context.Context, component string) ([]byte, error) {
	port, ok := metricsPorts[component]
	if !ok {
		return nil, fmt.Errorf("component %q: its metrics cannot be read", component)
	}
	pod := fmt.Sprintf("https:%s-%s:%s", component, c.controlPlane(), port)
	return c.raw.Get().AbsPath("/api/v1/namespaces", metav1.NamespaceSystem, "pods", pod, "proxy/metrics").DoRaw(ctx)
}

// metricsTimeout bounds one reading: a kubelet that is paused does not answer, and nobody waits for that.
const metricsTimeout = 5 * time.Second

// readRejections records what a node's kubelet has counted so far. A kubelet that does not answer leaves no reading.
func (c *Cluster) readRejections(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	text, err := c.raw.Get().AbsPath("/api/v1/nodes", node, "proxy/metrics").DoRaw(ctx)
	if err != nil {
		return nil
	}
	m := history.Metric{Name: history.MetricRejections, Labels: map[string]string{"reason": history.RejectionReason}}
	if m.Value, err = observe.Counter(bytes.NewReader(text), m.Name, m.Labels); err != nil {
		return fmt.Errorf("kubelet of node %s: %w", node, err)
	}
	w, err := history.Create(c.eventsDir(), c.Run, history.PrefixMetric+"kind/"+node)
	if err != nil {
		return err
	}
	w.Write(history.Event{Phase: history.Observed, Node: node, Key: "kubelet@" + node, Body: history.Encode(m)})
	return w.Close()
}
