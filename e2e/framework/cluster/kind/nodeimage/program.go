package nodeimage

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"headroom/e2e/framework/cluster/kind/archive"
)

// object is a program, a library, or a link to one, in the Debian root.
type object struct {
	link string
	data []byte
}

// program returns a program of the root with all the libraries that it needs, for an image that is made from nothing but files.
func (r root) program(name string) ([]archive.File, error) {
	objects, err := readObjects(r.tar, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.tar, err)
	}
	libraries := map[string]string{} // where each is, by the name that others need it by
	for at := range objects {
		if at != name && (libraries[path.Base(at)] == "" || at < libraries[path.Base(at)]) {
			libraries[path.Base(at)] = at
		}
	}
	var files []archive.File
	has := map[string]bool{}
	add := func(at, as string) error {
		data, err := follow(objects, at)
		if err != nil {
			return err
		}
		if !has[as] {
			has[as] = true
			files = append(files, archive.File{Path: as, Data: data})
		}
		return nil
	}
	if err := add(name, name); err != nil {
		return nil, err
	}
	for i := 0; i < len(files); i++ {
		needs, loader, err := needsOf(files[i].Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", files[i].Path, err)
		}
		for _, library := range needs {
			at, ok := libraries[library]
			if !ok {
				return nil, fmt.Errorf("%s needs %s, which the root does not have", files[i].Path, library)
			}
			if err := add(at, at); err != nil {
				return nil, err
			}
		}
		if loader != "" {
			if err := add(libraries[path.Base(loader)], loader); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// readObjects reads a program and whatever has a library's name.
func readObjects(file, program string) (map[string]object, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	objects := map[string]object{}
	for from := tar.NewReader(in); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		at := path.Join("/", h.Name)
		if at != program && !strings.Contains(path.Base(at), ".so") {
			continue
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			objects[at] = object{link: h.Linkname}
		case tar.TypeReg:
			data, err := io.ReadAll(from)
			if err != nil {
				return nil, err
			}
			objects[at] = object{data: data}
		}
	}
}

// follow returns what is at a path, through links. Debian has its libraries below /usr, and calls them by their old paths as well.
func follow(objects map[string]object, at string) ([]byte, error) {
	for range 8 {
		o, ok := objects[at]
		if !ok && (strings.HasPrefix(at, "/lib/") || strings.HasPrefix(at, "/lib64/")) {
			o, ok = objects["/usr"+at]
		}
		switch {
		case !ok:
			return nil, fmt.Errorf("the root has no %s", at)
		case o.link == "":
			return o.data, nil
		case path.IsAbs(o.link):
			at = o.link
		default:
			at = path.Join(path.Dir(at), o.link)
		}
	}
	return nil, fmt.Errorf("too many links at %s", at)
}

// needsOf says which libraries a program or library needs, and which loader starts it.
func needsOf(data []byte) (libraries []string, loader string, err error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, "", err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text, err := io.ReadAll(p.Open())
			if err != nil {
				return nil, "", err
			}
			loader = strings.TrimRight(string(text), "\x00")
		}
	}
	libraries, err = f.ImportedLibraries()
	return libraries, loader, err
}
