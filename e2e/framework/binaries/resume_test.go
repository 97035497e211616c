package binaries

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKilledDownload leaves nothing that looks complete, and the next process goes on where it stopped.
func TestKilledDownload(t *testing.T) {
	w, s, c := newWorld(t), newSite(t), kubelet(t)
	s.publish(c, program("v1.36.3"))
	w.from = Origin{Mode: FromMirror, Mirror: s.URL}
	reached := make(chan struct{})
	s.wrong = onBinary(func(rw http.ResponseWriter, r *http.Request, content []byte, n int) bool {
		if n > 1 {
			return false
		}
		rw.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = rw.Write(content[:half])
		_ = http.NewResponseController(rw).Flush()
		close(reached)
		<-r.Context().Done()
		return true
	})
	var out buffer
	other := w.another(&out, "kubelet")
	<-reached
	var part string
	eventually(t, "half of the file to arrive", func() bool {
		for _, name := range w.names("partial") {
			part = filepath.Join(w.cache, "partial", name)
			if info, err := os.Stat(part); err == nil && info.Size() == half {
				return true
			}
		}
		return false
	})
	if err := other.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if status := w.state("kubelet"); status.State != Missing {
		t.Errorf("want missing, got %+v", status)
	}
	if bin := w.names("bin"); len(bin) != 0 {
		t.Errorf("a part came into the cache: %q", bin)
	}
	if info, err := os.Stat(part); err != nil || info.Mode()&0o111 != 0 {
		t.Errorf("want a part that is not executable, got %v (%v)", info.Mode(), err)
	}
	if _, out := w.mustEnsure("kubelet"); !strings.Contains(out, "downloaded in") {
		t.Errorf("got\n%s", out)
	}
	s.wantRequests(c, "", fmt.Sprintf(" from %d", half))
	if len(w.names("partial"))+len(w.names("tmp")) != 0 {
		t.Errorf("left behind: %q %q", w.names("partial"), w.names("tmp"))
	}
}

func TestTwoRunsShareOneDownload(t *testing.T) {
	w, s, c := newWorld(t), newSite(t), kubelet(t)
	s.publish(c, program("v1.36.3"))
	w.from = Origin{Mode: FromMirror, Mirror: s.URL}
	reached, goOn := make(chan struct{}), make(chan struct{})
	s.wrong = onBinary(func(http.ResponseWriter, *http.Request, []byte, int) bool {
		close(reached) // a second request would panic
		<-goOn
		return false
	})
	var first buffer
	other := w.another(&first, "kubelet")
	<-reached
	var second buffer
	done := make(chan error, 1)
	go func() {
		_, err := Ensure(t.Context(), Options{Cache: w.cache, Components: []string{"kubelet"}, From: w.from, Out: &second})
		done <- err
	}()
	waiting := fmt.Sprintf("  kubelet v1.36.3  waiting for another mirror (pid %d)\n", other.Process.Pid)
	eventually(t, "the second run to say that it waits", func() bool { return strings.Contains(second.String(), waiting) })
	close(goOn)
	if err := other.Wait(); err != nil {
		t.Errorf("first run: %v\n%s", err, first.String())
	}
	if err := <-done; err != nil {
		t.Errorf("second run: %v", err)
	}
	if !strings.Contains(second.String(), "downloaded by another run in ") {
		t.Errorf("second run printed:\n%s", second.String())
	}
	s.wantRequests(c, "")
}
