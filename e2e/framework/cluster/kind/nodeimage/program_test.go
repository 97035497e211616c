package nodeimage

import (
	"archive/tar"
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// dynamic is a program of this machine with its libraries: by their names, the content.
func dynamic(t *testing.T) (program []byte, loader string, libraries map[string][]byte) {
	t.Helper()
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Skipf("this machine keeps its libraries elsewhere: %v", err)
		}
		return b
	}
	program = read("/bin/sh")
	needs, loader, err := needsOf(program)
	if err != nil || len(needs) == 0 || loader == "" {
		t.Skipf("/bin/sh of this machine needs no libraries (%v)", err)
	}
	libraries = map[string][]byte{path.Base(loader): read(loader)}
	for len(needs) > 0 {
		name := needs[0]
		needs = needs[1:]
		if libraries[name] != nil {
			continue
		}
		found, err := filepath.Glob("/usr/lib/*/" + name)
		if err != nil || len(found) == 0 {
			t.Skipf("this machine keeps %s elsewhere", name)
		}
		libraries[name] = read(found[0])
		more, _, err := needsOf(libraries[name])
		if err != nil {
			t.Fatal(err)
		}
		needs = append(needs, more...)
	}
	return program, loader, libraries
}

// rootOf is a root in which each library is a link, as in Debian.
func rootOf(t *testing.T, program []byte, libraries map[string][]byte) root {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	put := func(name, link string, data []byte) {
		h := &tar.Header{Name: "." + name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}
		if link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	put("/etc/passwd", "", []byte("x"))
	put("/usr/sbin/p", "", program)
	for name, data := range libraries {
		put("/usr/lib/m/"+name, "/lib/m/"+name+".1", nil)
		put("/usr/lib/m/"+name+".1", "", data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "root.tar")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return root{tar: file}
}

func TestProgramComesWithItsLibraries(t *testing.T) {
	program, loader, libraries := dynamic(t)
	files, err := rootOf(t, program, libraries).program("/usr/sbin/p")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{}
	for _, f := range files {
		got[f.Path] = f.Data
	}
	want := map[string][]byte{"/usr/sbin/p": program, loader: libraries[path.Base(loader)]}
	for name, data := range libraries {
		if name != path.Base(loader) {
			want["/usr/lib/m/"+name] = data
		}
	}
	for at, data := range want {
		if !bytes.Equal(got[at], data) {
			t.Errorf("%s: want its %d bytes, got %d", at, len(data), len(got[at]))
		}
	}
	if _, ok := got["/etc/passwd"]; ok {
		t.Error("want nothing that it does not need")
	}
}

func TestProgramWithoutALibrary(t *testing.T) {
	program, loader, libraries := dynamic(t)
	for name := range libraries {
		if name != path.Base(loader) {
			delete(libraries, name)
		}
	}
	if _, err := rootOf(t, program, libraries).program("/usr/sbin/p"); err == nil || !strings.Contains(err.Error(), "/usr/sbin/p needs ") {
		t.Errorf("want an error that names who needs what, got %v", err)
	}
	if _, err := rootOf(t, program, libraries).program("/usr/sbin/q"); err == nil || !strings.Contains(err.Error(), "/usr/sbin/q") {
		t.Errorf("want an error that names the program, got %v", err)
	}
}
