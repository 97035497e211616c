package local

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// TestMetricsProxy reads a component's metrics the whole way that the runner does: control client, cell, component.
func TestMetricsProxy(t *testing.T) {
	const text = "scheduler_pod_scheduled_after_flush_total 3\n"
	status := http.StatusOK
	component := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			t.Errorf("want /metrics asked for, got %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	defer component.Close()
	standIn(t, component.URL, "kube-scheduler")

	c := &cell{adminHTTP: component.Client()}
	front := httptest.NewServer(c.handler())
	defer front.Close()
	cluster := &Cluster{control: newControlClient(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", front.Listener.Addr().String())
	})}

	got, err := cluster.Metrics(t.Context(), "kube-scheduler")
	if err != nil || string(got) != text {
		t.Errorf("want %q, got %q, %v", text, got, err)
	}
	status = http.StatusForbidden
	if _, err := cluster.Metrics(t.Context(), "kube-scheduler"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a component that refuses: want its answer in the error, got %v", err)
	}
	if _, err := cluster.Metrics(t.Context(), "etcd"); err == nil || !strings.Contains(err.Error(), `component "etcd": its metrics cannot be read`) {
		t.Errorf("another component: want a refusal, got %v", err)
	}
	component.Close()
	if _, err := cluster.Metrics(t.Context(), "kube-scheduler"); err == nil || !strings.Contains(err.Error(), "metrics of kube-scheduler") {
		t.Errorf("a component that is gone: want an error that names it, got %v", err)
	}
}

// standIn makes the address the component's for the length of a test.
func standIn(t *testing.T, address, component string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	was := metricsPorts[component]
	metricsPorts[component] = port
	t.Cleanup(func() { metricsPorts[component] = was })
}
