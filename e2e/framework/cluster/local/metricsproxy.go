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
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", port), nil)
	if err == nil {
		var resp *http.Response
		if resp, err = c.adminHTTP.Do(req); err == nil {
			defer resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(w, resp.Body) // the reader is gone if this fails
			return
		}
	}
	http.Error(w, err.Error(), http.StatusBadGateway)
}

// Metrics reads the metrics of a component of the control plane, in Prometheus' text format.
func (c *Cluster) Metrics(ctx context.Context, component string) ([]byte, error) {
	return c.control.get(ctx, "/metrics/"+component)
}

// get reads what a control interface answers, other than JSON.
func (c *controlClient) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://cell"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the cell (%s): %w", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("ask the cell (%s): %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the cell (%s): it answers %s: %.200s", path, resp.Status, body)
	}
	return body, nil
}
