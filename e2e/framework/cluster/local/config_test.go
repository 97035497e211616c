package local

import (
	"strings"
	"testing"

	"headroom/e2e/framework/versions"
)

func TestExecutables(t *testing.T) {
	table := &executables{paths: Binaries{"kubelet": {"v1.36.3": "/bin/new"}}}
	kubelet := table.command("kubelet", "--flag")
	cmd, err := kubelet("v1.36.3")
	if err != nil || strings.Join(cmd.Args, " ") != "/bin/new --flag" {
		t.Errorf("command: got %v, %v", cmd, err)
	}
	if _, err := kubelet("v1.35.4"); err == nil || !strings.Contains(err.Error(), "no kubelet v1.35.4") {
		t.Errorf("a version that is not there: got %v", err)
	}
	table.add("kubelet", "v1.35.4", "/bin/old")
	table.add("etcd", "v3.6.0", "/bin/etcd")
	if cmd, err := kubelet("v1.35.4"); err != nil || cmd.Path != "/bin/old" {
		t.Errorf("a version added later: got %v, %v", cmd, err)
	}
	if cmd, err := table.command("etcd")("v3.6.0"); err != nil || cmd.Path != "/bin/etcd" {
		t.Errorf("a component added later: got %v, %v", cmd, err)
	}
}

func TestCellConfig(t *testing.T) {
	c := &cellConfig{RunDir: "/run/dir", Drivers: map[string]string{"mine": "steady", "broken": "/nowhere/driver.yaml"}}
	if d, err := c.driver("mine"); err != nil || d.Name != "steady" {
		t.Errorf("driver: got %+v, %v", d, err)
	}
	if _, err := c.driver("steady"); err == nil || !strings.Contains(err.Error(), `"steady" is not part of this run`) {
		t.Errorf("a driver that is not in the run: got %v", err)
	}
	if _, err := c.driver("broken"); err == nil {
		t.Error("a driver whose file is missing: want an error")
	}
	if got, want := c.logFile("driver@n1/d"), "/run/dir/logs/driver@n1/d.log"; got != want {
		t.Errorf("log: want %q, got %q", want, got)
	}
}

// A socket's path holds 107 bytes, whatever the names are that Kubernetes allows.
func TestSocketsFit(t *testing.T) {
	long := strings.Repeat("x", 63)
	for _, path := range []string{driverSocket(long, long), nodeDir(long) + "/agent.sock", nodeDir(long) + "/cri.sock", controllerDir(long) + "/driver.sock"} {
		if len(path) > 107 {
			t.Errorf("%s: %d bytes", path, len(path))
		}
	}
	if driverSocket("n1", "a") == driverSocket("n1", "b") || driverSocket("n1", "a") == driverSocket("n2", "a") {
		t.Error("two drivers share a socket")
	}
}

func TestNewChecksOptions(t *testing.T) {
	o := Options{RunDir: "relative", Binaries: Binaries{}, Versions: map[string]versions.Version{}}
	for _, name := range Components {
		o.Binaries[name] = map[versions.Version]string{"v1": "/bin/" + name}
		o.Versions[name] = "v1"
	}
	p, err := New(o)
	if err != nil || !strings.HasPrefix(p.options.RunDir, "/") || p.Name() != "local" {
		t.Errorf("complete options: got %+v, %v", p, err)
	}
	o.Versions["etcd"] = "v2"
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "no executable of etcd v2") {
		t.Errorf("without an executable: got %v", err)
	}
	delete(o.Versions, "etcd")
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "no version of etcd") {
		t.Errorf("without a version: got %v", err)
	}
}

func TestPreserved(t *testing.T) {
	dir := t.TempDir()
	got, err := preserved(Options{
		RunDir: dir, Drivers: map[string]string{"steady": "steady"},
		Binaries: Binaries{"etcd": {"v1": "/bin/sh"}, "kubelet": {"v1": "/nowhere/kubelet"}},
	})
	if err != nil || strings.Join(got, " ") != "/bin "+dir {
		t.Errorf("want /bin and %s, got %v, %v", dir, got, err)
	}
	if _, err := preserved(Options{Drivers: map[string]string{"x": "no-such-driver"}}); err == nil {
		t.Error("a driver that is not there: want an error")
	}
}
