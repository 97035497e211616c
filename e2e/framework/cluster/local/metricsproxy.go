package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// metricsPorts are the components whose metrics can be read from outside.
var metricsPorts = map[string]int{"kube-scheduler": schedulerPort, "kube-controller-manager": managerPort}

// serveMetrics passes on what a component answers to the administrator.
func (c *cell) serveMetrics(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("component")
	port, ok := metricsPorts[name]
	if !ok {
		http.Error(w, fmt.Sprintf("component %q: its metrics cannot be read", name), http.StatusNotFound)
		return
	}
	body, err := c.fetchMetrics(r.Context(), port)
	if err != nil {
		http.Error(w, fmt.Sprintf("metrics of %s: %v", name, err), http.StatusBadGateway)
		return
	}
	defer body.Close()
	_, _ = io.Copy(w, body) // the reader is gone if this fails
}

// fetchMetrics asks the component at a port of the cell for its metrics, as the administrator. The caller closes what it returns.
func (c *cell) fetchMetrics(ctx context.Context, port int) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", port), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.adminHTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	return resp.Body, nil
}

// Metrics reads the metrics of a component of the control plane, in Prometheus' text format.
func (c *Cluster) Metrics(ctx context.Context, component string) ([]byte, error) {
	return c.control.get(ctx, "/metrics/"+component)
}
