package local

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/versions"
)

// auditPolicy records who wrote what to storage.k8s.io, and the request before it was handled: a killed API server loses completions, and
// a request without one is then unknown, not absent.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: storage.k8s.io}]
- level: None
`

// pkiDir holds certificates and kubeconfigs, on the cell's tmpfs.
var pkiDir = filepath.Join(stateDir, "pki")

// preparePKI writes what the control plane's components read at their start.
func (c *cell) preparePKI() error {
	if err := os.MkdirAll(pkiDir, 0o700); err != nil {
		return err
	}
	server, err := c.ca.issue("kube-apiserver")
	if err != nil {
		return err
	}
	if err := server.write(pkiDir, "server"); err != nil {
		return err
	}
	toKubelets, err := c.ca.issue("kube-apiserver", "system:masters")
	if err != nil {
		return err
	}
	if err := toKubelets.write(pkiDir, "kubelet-client"); err != nil {
		return err
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	signerPEM, err := encodeKey(signer)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&signer.PublicKey)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"ca.crt": c.ca.pem, "sa.key": signerPEM, "audit.yaml": []byte(auditPolicy),
		"sa.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	} {
		if err := os.WriteFile(filepath.Join(pkiDir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func pki(name string) string { return filepath.Join(pkiDir, name) }

func (c *cell) quotaBackend() *process {
	p := c.process("quota", "", func(versions.Version) (*exec.Cmd, error) {
		return entry.Command("quota", "--data", quotaData, "--control", quotaControl, "--events", c.cfg.eventsDir(), "--run", c.cfg.Run), nil
	})
	p.healthy = func(ctx context.Context) error { return dialable(ctx, quotaControl) }
	return p
}

func (c *cell) etcd() *process {
	p := c.process("etcd", "etcd", c.binaries.command("etcd",
		"--data-dir", filepath.Join(stateDir, "etcd"),
		"--listen-client-urls", "http://"+etcdClient, "--advertise-client-urls", "http://"+etcdClient,
		"--listen-peer-urls", "http://"+etcdPeer,
		// A lone member waits one tick before it elects itself. With the default of 100 ms it is not there yet when the API server connects, whose
		// many clients then each wait a second before they try again.
		"--heartbeat-interval", "10", "--election-timeout", "100",
		// The data lies in memory and dies with the cell, so there is nothing to sync to.
		"--unsafe-no-fsync", "--log-level", "warn"))
	p.healthy = healthz(http.DefaultClient, "http://"+etcdClient+"/health")
	return p
}

func (c *cell) apiServer() *process {
	p := c.process("kube-apiserver", "kube-apiserver", c.binaries.command("kube-apiserver",
		"--etcd-servers", "http://"+etcdClient,
		"--bind-address", "127.0.0.1", "--secure-port", "6443", "--advertise-address", cellAddress, "--endpoint-reconciler-type", "none",
		"--tls-cert-file", pki("server.crt"), "--tls-private-key-file", pki("server.key"), "--client-ca-file", pki("ca.crt"),
		"--service-account-key-file", pki("sa.pub"), "--service-account-signing-key-file", pki("sa.key"),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--kubelet-client-certificate", pki("kubelet-client.crt"), "--kubelet-client-key", pki("kubelet-client.key"), "--kubelet-preferred-address-types", "InternalIP",
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged",
		"--audit-policy-file", pki("audit.yaml"), "--audit-log-path", c.cfg.logFile("audit"), "--audit-log-maxsize", "0"))
	p.healthy = func(ctx context.Context) error { return healthz(c.adminHTTP, "https://"+apiServer+"/readyz")(ctx) }
	return p
}

func (c *cell) controllerManager() (*process, error) {
	config, err := c.componentKubeconfig("kube-controller-manager", "system:kube-controller-manager")
	if err != nil {
		return nil, err
	}
	p := c.process("kube-controller-manager", "kube-controller-manager", c.binaries.command("kube-controller-manager",
		"--kubeconfig", config, "--authentication-kubeconfig", config, "--authorization-kubeconfig", config,
		"--service-account-private-key-file", pki("sa.key"), "--root-ca-file", pki("ca.crt"), "--use-service-account-credentials",
		"--leader-elect=false", "--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(managerPort),
		// Before v1.36 a claim whose binding met a conflict waits for the next of these, 15s by default; specs wait for less.
		"--pvclaimbinder-sync-period", "1s",
		"--tls-cert-file", pki("server.crt"), "--tls-private-key-file", pki("server.key")))
	p.healthy = healthz(c.adminHTTP, fmt.Sprintf("https://127.0.0.1:%d/healthz", managerPort))
	return p, nil
}

func (c *cell) scheduler() (*process, error) {
	config, err := c.componentKubeconfig("kube-scheduler", "system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	p := c.process("kube-scheduler", "kube-scheduler", c.binaries.command("kube-scheduler",
		"--kubeconfig", config, "--authentication-kubeconfig", config, "--authorization-kubeconfig", config,
		"--leader-elect=false", "--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(schedulerPort),
		"--tls-cert-file", pki("server.crt"), "--tls-private-key-file", pki("server.key")))
	p.healthy = healthz(c.adminHTTP, fmt.Sprintf("https://127.0.0.1:%d/healthz", schedulerPort))
	return p, nil
}

// healthz is a health check by HTTP: 200 is healthy.
func healthz(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		// Only a connection whose answer was read to its end is used again. Without that each question costs both ends a TLS handshake, which
		// slows down the very start that is waited for.
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}

// adminClient is an HTTP client with the administrator's certificate.
func (a *authority) adminClient(p pair) (*http.Client, error) {
	cert, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool}},
	}, nil
}
