package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// boot makes the control plane.
func (c *cell) boot(ctx context.Context) {
	c.readyErr = c.bootControlPlane(ctx)
	close(c.ready)
}

// bootControlPlane starts everything at once: the API server waits for etcd by itself, and the others for the API server, see ahead. A start is
// mostly work on one processor, so that on two they overlap.
func (c *cell) bootControlPlane(ctx context.Context) error {
	if err := isolate(c.cfg.Preserve); err != nil {
		return fmt.Errorf("isolate: %w", err)
	}
	if err := c.identity(); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	host, err := net.FileListener(os.NewFile(apiFD, "api"))
	if err != nil {
		return fmt.Errorf("host listener: %w", err)
	}
	quota, etcd, api := c.quotaBackend(), c.etcd(), c.apiServer()
	manager, err := c.controllerManager()
	if err != nil {
		return err
	}
	scheduler, err := c.scheduler()
	if err != nil {
		return err
	}
	serving := make(chan struct{})
	return together(ctx, quota.up, etcd.up, c.ahead(manager, serving), c.ahead(scheduler, serving), func(ctx context.Context) error {
		if err := api.up(ctx); err != nil {
			return err
		}
		close(serving)
		c.mu.Lock()
		c.endpoints["host"] = newEndpoint(host, apiServer)
		c.mu.Unlock()
		return c.bootstrapRBAC(ctx)
	})
}

// ahead starts a component while the API server still starts. The component's endpoint holds what it asks until the API server is ready: it then
// meets neither refusals nor missing roles, and backs off from nothing. A component that gives up waiting (the controller manager does after 10 s,
// on a machine that is very slow) is started again once the API server is ready.
func (c *cell) ahead(p *process, serving <-chan struct{}) func(context.Context) error {
	c.mu.Lock()
	e := c.endpoints[p.id]
	c.mu.Unlock()
	return func(ctx context.Context) error {
		if err := e.set(endpointHang); err != nil {
			return err
		}
		first := make(chan error, 1)
		go func() { first <- p.start(ctx, "") }()
		select {
		case <-serving:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), <-first)
		}
		if err := e.set(endpointPass); err != nil {
			return err
		}
		if <-first == nil {
			return nil
		}
		return p.start(ctx, "")
	}
}

// identity makes the authority and the administrator, and the client of its own that the cell uses.
func (c *cell) identity() (err error) {
	if c.ca, err = newAuthority(); err != nil {
		return err
	}
	if c.admin, err = c.ca.issue("headroom-admin", "system:masters"); err != nil {
		return err
	}
	if c.adminHTTP, err = c.ca.adminClient(c.admin); err != nil {
		return err
	}
	config := &rest.Config{Host: "https://" + apiServer, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem, CertData: c.admin.cert, KeyData: c.admin.key}}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	return c.preparePKI()
}

// up starts a process at its own version, for use with together.
func (p *process) up(ctx context.Context) error { return p.start(ctx, "") }

// together runs functions at once and returns the first error; the others are then cancelled.
func together(ctx context.Context, fs ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(fs))
	for _, f := range fs {
		go func() { errs <- f(ctx) }()
	}
	var first error
	for range fs {
		if err := <-errs; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}
