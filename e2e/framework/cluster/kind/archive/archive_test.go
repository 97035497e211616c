package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entries reads an archive of files.
func entries(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := out[h.Name]; twice {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		if h.Typeflag == tar.TypeSymlink {
			body = []byte("-> " + h.Linkname)
		}
		out[h.Name] = body
	}
}

func TestWrite(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("code"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []File{{Path: "/usr/bin/program", From: program}, {Path: "/usr/bin/alias", Link: "program"}, {Path: "etc/c", Data: []byte("d"), Mode: 0o644}}
	images := []Image{{Ref: "a:1", Files: files, Entrypoint: []string{"/usr/bin/program"}}, {Ref: "b:1", Files: files}}
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := Write(w, images...); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("want equal bytes for equal images")
	}
	all := entries(t, first.Bytes())
	var index []manifest
	if err := json.Unmarshal(all["manifest.json"], &index); err != nil || len(index) != 2 {
		t.Fatalf("want a manifest of two images, got %s (error: %v)", all["manifest.json"], err)
	}
	if index[0].Layers[0] != index[1].Layers[0] || index[0].Config == index[1].Config {
		t.Errorf("want one layer and two configurations, got %+v", index)
	}
	layer := all[index[0].Layers[0]]
	var c config
	if err := json.Unmarshal(all[index[0].Config], &c); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(layer)
	if want := "sha256:" + hex.EncodeToString(sum[:]); len(c.RootFS.DiffIDs) != 1 || c.RootFS.DiffIDs[0] != want {
		t.Errorf("want the layer's digest %s, got %v", want, c.RootFS.DiffIDs)
	}
	inside := entries(t, layer)
	for name, want := range map[string]string{"usr/bin/program": "code", "usr/bin/alias": "-> program", "etc/c": "d", "usr/": "", "usr/bin/": "", "tmp/": ""} {
		if got, ok := inside[name]; !ok || string(got) != want {
			t.Errorf("%s: want %q, got %q (there: %v)", name, want, got, ok)
		}
	}
}

func TestWriteNamesTheImageThatFails(t *testing.T) {
	err := Write(io.Discard, Image{Ref: "broken:1", Files: []File{{Path: "/x", From: "/nowhere/x"}}})
	if err == nil || !strings.Contains(err.Error(), "broken:1") || !strings.Contains(err.Error(), "/nowhere/x") {
		t.Errorf("want an error that names image and file, got %v", err)
	}
}
