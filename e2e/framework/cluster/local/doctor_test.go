package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// TestProbeInotify asks for more than this process may have files open, which the kernel refuses as it refuses an instance too many.
func TestProbeInotify(t *testing.T) {
	if err := probeInotify(1); err != nil {
		t.Errorf("want room for one instance, got %v", err)
	}
	before := descriptors(t)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: uint64(before) + 8, Max: files.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err := probeInotify(64)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), "max_user_instances is ") || !strings.Contains(env.Remedy, "sysctl -w fs.inotify.max_user_instances=") {
		t.Errorf("want an environment error with a remedy, got %v", err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("want as many files open as before, %d, got %d", before, after)
	}
}

func descriptors(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
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
