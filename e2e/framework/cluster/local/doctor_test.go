package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headroom/e2e/framework/cluster"
)

// proc makes a tree of files like /proc.
func proc(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUserNamespaces(t *testing.T) {
	const ns = "self/ns/user"
	for _, c := range []struct {
		name         string
		files        map[string]string
		want, remedy string
	}{
		{"allowed", map[string]string{ns: "", "sys/user/max_user_namespaces": "95000"}, "", ""},
		{"allowed by a Debian kernel", map[string]string{ns: "", "sys/kernel/unprivileged_userns_clone": "1"}, "", ""},
		{"none may be made", map[string]string{ns: "", "sys/user/max_user_namespaces": "0"}, "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces="},
		{"only root may", map[string]string{ns: "", "sys/kernel/unprivileged_userns_clone": "0"},
			"kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"not in this kernel", map[string]string{"version": "Linux"}, "no user namespaces", "run as root"},
	} {
		err := userNamespaces(proc(t, c.files))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: want nil, got %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Remedy, c.remedy) {
			t.Errorf("%s: want %q with remedy %q, got %v", c.name, c.want, c.remedy, err)
		}
	}
}

func TestDiagnoseInotify(t *testing.T) {
	const setting = "sys/fs/inotify/max_user_instances"
	for _, c := range []struct {
		name         string
		files        map[string]string
		nodes        int
		want, remedy string
	}{
		{"enough", map[string]string{setting: "128"}, 2, "", ""},
		{"just enough", map[string]string{setting: "28"}, 2, "", ""},
		{"too few", map[string]string{setting: "27"}, 2, "max_user_instances is 27, 2 nodes need about 28", "sysctl -w fs.inotify.max_user_instances=56"},
		{"too few for many nodes", map[string]string{setting: "128"}, 20, "20 nodes need about 136", "=272"},
		{"not said", map[string]string{}, 2, "", ""},
	} {
		wantNeed(t, c.name, diagnoseInotify(proc(t, c.files), c.nodes), c.want, c.remedy)
	}
}

func TestDiagnoseMemory(t *testing.T) {
	for _, c := range []struct {
		name         string
		files        map[string]string
		want, remedy string
	}{
		{"enough", map[string]string{"meminfo": "MemTotal: 9 kB\nMemAvailable:   8388608 kB"}, "", ""},
		{"too little", map[string]string{"meminfo": "MemAvailable:   102400 kB"}, "100 MiB available, 2 nodes need about 1224 MiB", "fewer --nodes"},
		{"not said", map[string]string{"meminfo": "MemTotal: 9 kB\nodd"}, "does not say", ""},
		{"not a number", map[string]string{"meminfo": "MemAvailable: much kB"}, "does not say", ""},
		{"no file", map[string]string{}, "no such file", ""},
	} {
		wantNeed(t, c.name, diagnoseMemory(proc(t, c.files), 2), c.want, c.remedy)
	}
}

func wantNeed(t *testing.T, name string, got Need, want, remedy string) {
	t.Helper()
	switch {
	case want == "" && got.Err != nil:
		t.Errorf("%s: want nothing missing, got %v", name, got.Err)
	case want == "" && got.Detail == "":
		t.Errorf("%s: want what was found, got nothing", name)
	case want != "" && (got.Err == nil || !strings.Contains(got.Err.Error(), want) || !strings.Contains(got.Remedy, remedy)):
		t.Errorf("%s: want %q with remedy %q, got %v with %q", name, want, remedy, got.Err, got.Remedy)
	}
}

func TestDiagnoseDisk(t *testing.T) {
	wantNeed(t, "a directory to be made", diagnoseDisk(filepath.Join(t.TempDir(), "not", "yet")), "", "")
	wantNeed(t, "a file system without space", diagnoseDisk("/proc/self"), "0 MiB free for /proc/self", "--run-dir")
	dir := t.TempDir()
	if got := existing(filepath.Join(dir, "a", "b")); got != dir {
		t.Errorf("nearest existing directory: want %q, got %q", dir, got)
	}
}

// TestDiagnose makes a cell's namespaces, mounts and network for real.
func TestDiagnose(t *testing.T) {
	needs := Diagnose(t.Context(), t.TempDir(), 2)
	var names []string
	for _, n := range needs {
		names = append(names, n.Name)
		t.Logf("%s: %s, missing: %v", n.Name, n.Detail, n.Err)
		if n.Err != nil && n.Remedy == "" {
			t.Errorf("%s: want a remedy for: %v", n.Name, n.Err)
		}
	}
	if got := strings.Join(names, ", "); got != "namespaces, inotify instances, memory, disk" {
		t.Errorf("needs: got %s", got)
	}
	if err := Preflight(); err != nil && needs[0].Err == nil {
		t.Errorf("preflight: want the same answer as from the namespaces, got %v", err)
	}
}

// TestInotifyLeft holds that nodes whose kubelets would find no inotify instances are refused, and that what was taken to see it is given back.
func TestInotifyLeft(t *testing.T) {
	left, freed := 20, 0
	take := func() (int, error) {
		if left == 0 {
			return -1, syscall.EMFILE
		}
		left--
		return left, nil
	}
	free := func(int) error { left++; freed++; return nil }
	if err := inotifyLeft(3, take, free); err != nil || freed != 18 {
		t.Errorf("3 nodes with 20 instances left: want them allowed and 18 given back, got %v, %d", err, freed)
	}
	err := inotifyLeft(4, take, free)
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || !strings.Contains(err.Error(), "20 inotify instances are left, their kubelets need 24") || !strings.Contains(env.Remedy, "sysctl") {
		t.Errorf("4 nodes with 20 instances left: want a remedy, got %v", err)
	}
	if left != 20 {
		t.Errorf("want all given back, got %d of 20", left)
	}
}
