package local

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func newTestAuthority(t *testing.T) *authority {
	t.Helper()
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *authority, user string, groups ...string) pair {
	t.Helper()
	p, err := a.issue(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestIssue(t *testing.T) {
	a := newTestAuthority(t)
	p := issue(t, a, "system:node:n1", "system:nodes")
	block, _ := pem.Decode(p.cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.CommonName != "system:node:n1" || len(cert.Subject.Organization) != 1 || cert.Subject.Organization[0] != "system:nodes" {
		t.Errorf("subject: want system:node:n1 of system:nodes, got %s", cert.Subject)
	}
	ours, theirs := x509.NewCertPool(), x509.NewCertPool()
	ours.AddCert(a.cert)
	theirs.AddCert(newTestAuthority(t).cert)
	for _, c := range []struct {
		name  string
		roots *x509.CertPool
		use   x509.ExtKeyUsage
		host  string
		ok    bool
	}{
		{"client", ours, x509.ExtKeyUsageClientAuth, "", true},
		{"server on the loopback", ours, x509.ExtKeyUsageServerAuth, "127.0.0.1", true},
		{"server at the cell's address", ours, x509.ExtKeyUsageServerAuth, cellAddress, true},
		{"server elsewhere", ours, x509.ExtKeyUsageServerAuth, "10.99.0.77", false},
		{"another use", ours, x509.ExtKeyUsageCodeSigning, "", false},
		{"another authority", theirs, x509.ExtKeyUsageClientAuth, "", false},
	} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: c.roots, KeyUsages: []x509.ExtKeyUsage{c.use}, DNSName: c.host})
		if (err == nil) != c.ok {
			t.Errorf("%s: want accepted %v, got %v", c.name, c.ok, err)
		}
	}
}

func TestWritePair(t *testing.T) {
	dir := t.TempDir()
	p := issue(t, newTestAuthority(t), "x")
	if err := p.write(dir, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "x.crt"), filepath.Join(dir, "x.key")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(dir, "x.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: want mode 0600, got %v, %v", info.Mode(), err)
	}
	if err := p.write(filepath.Join(dir, "missing"), "x"); err == nil {
		t.Error("write to a missing directory: want an error")
	}
}

func TestKubeconfig(t *testing.T) {
	a := newTestAuthority(t)
	p := issue(t, a, "x")
	b, err := a.kubeconfig("127.0.0.1:1234", p)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "https://127.0.0.1:1234" || string(c.CAData) != string(a.pem) || string(c.CertData) != string(p.cert) || string(c.KeyData) != string(p.key) {
		t.Errorf("kubeconfig: got host %q and data of %d, %d, %d bytes", c.Host, len(c.CAData), len(c.CertData), len(c.KeyData))
	}
}

// The administrator's client knows its own authority only, and shows who it is.
func TestAdminClient(t *testing.T) {
	a, other := newTestAuthority(t), newTestAuthority(t)
	client, err := a.adminClient(issue(t, a, "admin", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	server := func(of *authority) *httptest.Server {
		p := issue(t, of, "server")
		cert, err := tls.X509KeyPair(p.cert, p.key)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(of.cert)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS.PeerCertificates[0].Subject.CommonName != "admin" {
				w.WriteHeader(http.StatusForbidden)
			}
		}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	if err := healthz(client, server(a).URL)(t.Context()); err != nil {
		t.Errorf("own server: %v", err)
	}
	if err := healthz(client, server(other).URL)(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("another authority's server: want a certificate error, got %v", err)
	}
}

// A health check leaves its connection for the next one, and only 200 is healthy.
func TestHealthz(t *testing.T) {
	code := http.StatusInternalServerError
	from := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr] = true
		w.WriteHeader(code)
		_, _ = w.Write([]byte(strings.Repeat("[-]poststarthook failed\n", 500)))
	}))
	defer s.Close()
	check := healthz(&http.Client{Transport: &http.Transport{}}, s.URL)
	for range 3 {
		if err := check(t.Context()); err == nil || !strings.Contains(err.Error(), "500") {
			t.Errorf("want an error with the status, got %v", err)
		}
	}
	code = http.StatusOK
	if err := check(t.Context()); err != nil {
		t.Error(err)
	}
	if len(from) != 1 {
		t.Errorf("connections: want 1 for all checks, got %d", len(from))
	}
}
