package observe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"headroom/e2e/framework/history"
)

const (
	probePath = "/readyz" // it reads from etcd, as the requests that matter do
	probeKey  = "readyz"
	// probePeriod is the time between two probes, probeTimeout what one may take.
	probePeriod, probeTimeout = time.Second, 5 * time.Second
)

// Probe asks the API server at cfg once a second whether it is ready, and writes invoke and completion to the source "probe". An answer other
// than 200, or none within 5 s, is a fail. One request at a time: while one hangs, no other is sent. No rate limiter and no retry is in the way.
// It blocks until ctx ends (a request that is then open completes as unknown) and returns what went wrong with cfg or with the file.
func Probe(ctx context.Context, cfg *rest.Config, eventsDir, run string) error {
	ticks := time.NewTicker(probePeriod)
	defer ticks.Stop()
	return probe(ctx, cfg, eventsDir, run, probeTimeout, ticks.C)
}

func probe(ctx context.Context, cfg *rest.Config, eventsDir, run string, timeout time.Duration, ticks <-chan time.Time) error {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout, cfg.UserAgent = 0, "headroom-probe"
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	url := base.JoinPath(probePath).String()
	out, err := history.Create(eventsDir, run, history.SourceProbe)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	for n := 1; ; n++ {
		op := strconv.Itoa(n)
		start := history.Now()
		out.Write(history.Event{At: start, Phase: history.Invoke, Op: op, Key: probeKey})
		err := ask(ctx, client, url, timeout)
		end := history.Now()
		body := history.Probe{Latency: history.Duration(end - start)}
		phase := history.OK
		if err != nil {
			phase, body.Error = history.Fail, err.Error()
			if ctx.Err() != nil {
				phase = history.Unknown
			}
		}
		out.Write(history.Event{At: end, Phase: phase, Op: op, Key: probeKey, Body: history.Encode(body)})
		select {
		case <-ctx.Done():
			return out.Close()
		case <-ticks:
		}
	}
}

// ask sends one request and reads the answer to its end.
func ask(ctx context.Context, client *http.Client, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status: want 200, got %d: %.200s", resp.StatusCode, strings.TrimSpace(string(answer)))
	}
	return nil
}
