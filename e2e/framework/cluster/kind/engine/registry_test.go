package engine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/cluster/kind/engine"
)

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// registry serves one image, of one small file, under any name: as much of the distribution API as a pull takes. It returns the image's digest.
func registry(t *testing.T) (server *httptest.Server, digest string) {
	t.Helper()
	var layer, packed bytes.Buffer
	files := tar.NewWriter(&layer)
	err := errors.Join(files.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: 1}), func() error { _, err := files.Write([]byte("x")); return err }(), files.Close())
	zip := gzip.NewWriter(&packed)
	_, failed := zip.Write(layer.Bytes())
	if err = errors.Join(err, failed, zip.Close()); err != nil {
		t.Fatal(err)
	}
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{}, "rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer.Bytes())}},
	})
	const docker = "application/vnd.docker."
	part := func(kind string, b []byte) map[string]any {
		return map[string]any{"mediaType": docker + kind, "size": len(b), "digest": digestOf(b)}
	}
	const kind = docker + "distribution.manifest.v2+json"
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": kind, "config": part("container.image.v1+json", config), "layers": []any{part("image.rootfs.diff.tar.gzip", packed.Bytes())},
	})
	content := map[string][]byte{digestOf(config): config, digestOf(packed.Bytes()): packed.Bytes(), digestOf(manifest): manifest, "v1": manifest}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, ok := content[path.Base(r.URL.Path)]
		switch {
		case r.URL.Path == "/v2/":
		case !ok:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)) // the reader is gone if this fails
		default:
			if strings.Contains(r.URL.Path, "/manifests/") {
				w.Header().Set("Content-Type", kind)
			}
			w.Header().Set("Docker-Content-Digest", digestOf(b))
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
		}
	}))
	t.Cleanup(server.Close)
	return server, digestOf(manifest)
}

// TestPullByDigest needs an engine: an image comes by its digest, another digest under the same tag does not pass for it, and a registry that is not there
// can be told from one that refuses.
func TestPullByDigest(t *testing.T) {
	needEngine(t)
	server, digest := registry(t)
	tag := strings.TrimPrefix(server.URL, "http://") + "/node:v1"
	ref, other := tag+"@"+digest, tag+"@"+digestOf([]byte("another"))
	t.Cleanup(func() { _, _ = engine.Run(context.Background(), "rmi", "--force", ref) }) // a picture of a few bytes
	has := func(ref string, want bool) {
		t.Helper()
		if got, err := engine.HasImage(t.Context(), ref); err != nil || got != want {
			t.Errorf("image %s: want it there %v, got %v (error: %v)", ref, want, got, err)
		}
	}
	has(ref, false)
	if err := engine.Pull(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	has(ref, true)
	has(other, false)
	if err := engine.Pull(t.Context(), other); err == nil || errors.Is(err, engine.ErrNoRegistry) {
		t.Errorf("a digest that the registry does not have: want its refusal, got %v", err)
	}
	server.Close()
	if err := engine.Pull(t.Context(), other); !errors.Is(err, engine.ErrNoRegistry) {
		t.Errorf("want it said that no registry answers, got %v", err)
	}
}
