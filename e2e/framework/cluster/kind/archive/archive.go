// Package archive writes container images as tar files, from nothing but files: no base image, no engine, no registry.
//
// Contract: the format is that of `docker save`, which containerd imports as well. Each image has one layer; equal input gives equal bytes. It pushes,
// pulls and runs nothing.
package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Image is one image.
type Image struct {
	// Ref is its name with a tag: "registry.k8s.io/pause:3.10".
	Ref   string
	Files []File
	// Entrypoint is what a container runs when nobody says otherwise.
	Entrypoint []string
}

// File is a regular file or a symbolic link in an image.
type File struct {
	// Path is relative to the image's root.
	Path string
	// From is the file on this machine that the content is read from; Data is the content otherwise.
	From string
	Data []byte
	// Link makes it a symbolic link.
	Link string
	// Mode is the permissions; 0 means 0755.
	Mode int64
}

// PathEnv is the search path in every image.
const PathEnv = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Write writes the images into one archive.
func Write(w io.Writer, images ...Image) error {
	out := tar.NewWriter(w)
	written := map[string]bool{}
	var index []manifest
	for _, i := range images {
		m, err := i.write(out, written)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.Ref, err)
		}
		index = append(index, m)
	}
	if err := writeJSON(out, "manifest.json", index); err != nil {
		return err
	}
	return out.Close()
}

// manifest is an entry of manifest.json.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

type config struct {
	Architecture string  `json:"architecture"`
	OS           string  `json:"os"`
	Config       process `json:"config"`
	RootFS       rootFS  `json:"rootfs"`
}

type process struct {
	Env        []string
	Entrypoint []string `json:",omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// write adds the image's layer, unless another image has the same, and its configuration.
func (i Image) write(out *tar.Writer, written map[string]bool) (manifest, error) {
	sum := sha256.New()
	size := &counter{w: sum}
	if err := i.layer(size); err != nil {
		return manifest{}, err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	name := digest + "/layer.tar"
	if !written[name] {
		written[name] = true
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size.n}); err != nil {
			return manifest{}, err
		}
		if err := i.layer(out); err != nil {
			return manifest{}, err
		}
	}
	c := config{
		Architecture: runtime.GOARCH, OS: "linux", Config: process{Env: []string{"PATH=" + PathEnv}, Entrypoint: i.Entrypoint},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{"sha256:" + digest}},
	}
	text, err := json.Marshal(c)
	if err != nil {
		return manifest{}, err
	}
	id := sha256.Sum256(text)
	m := manifest{Config: hex.EncodeToString(id[:]) + ".json", RepoTags: []string{i.Ref}, Layers: []string{name}}
	if written[m.Config] {
		return m, nil
	}
	written[m.Config] = true
	return m, writeJSON(out, m.Config, c)
}

// layer writes the image's files, their directories first, and /tmp, which many programs need.
func (i Image) layer(w io.Writer) error {
	out := tar.NewWriter(w)
	dirs := map[string]bool{".": true}
	made := func(dir string, mode int64) error {
		if dirs[dir] {
			return nil
		}
		dirs[dir] = true
		return out.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: mode})
	}
	if err := made("tmp", 0o1777); err != nil {
		return err
	}
	for _, f := range i.Files {
		var parents []string
		for dir := path.Dir(f.name()); dir != "."; dir = path.Dir(dir) {
			parents = append(parents, dir)
		}
		slices.Reverse(parents)
		for _, dir := range parents {
			if err := made(dir, 0o755); err != nil {
				return err
			}
		}
		if err := f.AppendTo(out); err != nil {
			return err
		}
	}
	return out.Close()
}

// name is the path as archives have it.
func (f File) name() string { return strings.TrimPrefix(path.Clean("/"+f.Path), "/") }

// AppendTo adds the file to an archive of files, without its directories.
func (f File) AppendTo(out *tar.Writer) error {
	h := &tar.Header{Name: f.name(), Typeflag: tar.TypeReg, Mode: f.Mode, Size: int64(len(f.Data))}
	if f.Mode == 0 {
		h.Mode = 0o755
	}
	if f.Link != "" {
		h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.Link, 0
		return out.WriteHeader(h)
	}
	if f.From == "" {
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err := out.Write(f.Data)
		return err
	}
	in, err := os.Open(f.From)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	h.Size = info.Size()
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

func writeJSON(out *tar.Writer, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// counter counts what passes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
