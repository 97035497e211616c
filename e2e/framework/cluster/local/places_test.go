package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTwoCells makes two cells with nodes of the same name at once. Each has its own.
func TestTwoCells(t *testing.T) {
	c := testBinaries(t)
	cells, errs, dir := make([]*testCluster, 2), make([]error, 2), t.TempDir()
	names := []string{"left", "right"}
	starts := make([]func(context.Context) error, 2)
	for i, name := range names {
		starts[i] = func(context.Context) error {
			if cells[i], errs[i] = createCell(t.Context(), filepath.Join(dir, name), c, steady, "only-"+name); errs[i] != nil {
				return errs[i]
			}
			t.Cleanup(func() {
				if err := cells[i].Destroy(context.Background()); err != nil {
					t.Errorf("destroy %s: %v", name, err)
				}
			})
			return cells[i].addTestDriver(t.Context(), "steady", "both")
		}
	}
	if err := together(t.Context(), starts...); err != nil {
		t.Fatal(err)
	}
	wantNodes := func(i int) {
		t.Helper()
		list, err := cells[i].client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range list.Items {
			got = append(got, n.Name)
		}
		if want := []string{"both", "only-" + names[i]}; !slices.Equal(got, want) {
			t.Errorf("nodes of the cell %q: want %q, got %q", names[i], want, got)
		}
	}
	wantNodes(0)
	wantNodes(1)
	// The quota of the one is not that of the other, and the end of the one not the other's.
	if err := cells[0].quota.SetLimit(t.Context(), "both", 2); err != nil {
		t.Fatal(err)
	}
	if state, err := cells[1].quota.State(t.Context()); err != nil || state.Nodes["both"].Quota.Limit != testLimit {
		t.Errorf("limit in the cell %q: want %d, got %+v, %v", names[1], testLimit, state.Nodes, err)
	}
	were := descendants(t, cells[0].life.pid)
	if err := cells[0].Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, filepath.Join(dir, names[0]), were)
	wantNodes(1)
	if _, err := cells[1].createPod(t.Context(), "after", "both", ""); err != nil {
		t.Fatal(err)
	}
	if err := cells[1].awaitRunning(t.Context(), "after"); err != nil {
		t.Error(err)
	}
}

// TestPlaces makes cells whose run directory is deeper than a socket's address is long, and below the directory that a cell covers.
func TestPlaces(t *testing.T) {
	c := testBinaries(t)
	t.Run("long", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 25), "run")
		if len(controlSocket(dir)) <= 108 {
			t.Fatalf("%s: want a longer path", dir)
		}
		testPlace(t, dir, c)
	})
	t.Run("covered", func(t *testing.T) {
		dir, err := os.MkdirTemp("/var/lib", "headroom-test-*")
		if errors.Is(err, fs.ErrPermission) {
			t.Skipf("this user cannot write to /var/lib: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		testPlace(t, filepath.Join(dir, "run"), c)
	})
}

func testPlace(t *testing.T, dir string, c components) {
	cell := newTestCluster(t, dir, c, steady)
	were := descendants(t, cell.life.pid)
	if err := cell.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, dir, were)
	wantClosed(t, dir)
	if info, err := os.Stat(filepath.Join(dir, "logs", "kube-apiserver.log")); err != nil || info.Size() == 0 {
		t.Errorf("log of the API server: got %v, %v", info, err)
	}
}

// TestOrdinaryUser repeats the other tests as a user without rights, on executables that this user can read.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user: the other tests ran as one")
	}
	if err := userNamespaces("/proc"); err != nil {
		t.Skip(err)
	}
	c := testBinaries(t)
	const nobody = 65534
	// Not t.TempDir, whose parent is closed to others.
	dir, err := os.MkdirTemp("", "headroom-test-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	home := filepath.Join(dir, "home")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	for name, byVersion := range c.Binaries {
		for v, path := range byVersion {
			byVersion[v] = filepath.Join(dir, name)
			lend(t, path, byVersion[v])
		}
	}
	handed, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "local.test")
	lend(t, "/proc/self/exe", self)
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run", "^(TestCluster|TestTwoCells|TestCover|TestDiagnose|TestPlaces)$")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, envBinaries+"="+string(handed))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Logf("as user %d:\n%s", nobody, out)
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(out), "--- PASS: TestCluster") {
		t.Error("TestCluster did not run as an ordinary user")
	}
}

// lend copies an executable to where anybody can run it.
func lend(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
