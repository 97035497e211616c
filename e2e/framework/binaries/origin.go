package binaries

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mode says where binaries come from.
type Mode string

const (
	// Auto takes what the cache has, however it was made, and else tries the mirror, where one is named, a download and a build, in this order.
	Auto Mode = "auto"
	// FromCache takes what the cache has and makes nothing.
	FromCache Mode = "cache"
	// FromMirror copies from a directory, or downloads from a URL, in the layout of the Kubernetes release site.
	FromMirror Mode = "mirror"
	// FromDownload downloads from the Kubernetes release site, and builds what that does not have: etcd, external-attacher and external-provisioner.
	FromDownload Mode = "download"
	// FromBuild builds from Go modules.
	FromBuild Mode = "build"
)

// Modes are all of them; the first is the default.
var Modes = []Mode{Auto, FromCache, FromMirror, FromDownload, FromBuild}

// site is the Kubernetes release site: where released binaries lie as <version>/bin/<os>/<arch>/<name>, each with its SHA-256 beside it.
const site = "https://dl.k8s.io/release"

// Origin says where binaries that are not in the cache come from.
type Origin struct {
	// Mode is one of Modes; "" is Auto.
	Mode Mode
	// Mirror stands in for the Kubernetes release site: a directory, or an http or https URL. FromMirror needs it, Auto tries it first, and no other
	// mode takes one. It may hold the components that the release site lacks too, each below its own version: v3.6.16/bin/linux/amd64/etcd.
	Mirror string

	official string // another release site, for tests; "" is site
}

// Check returns what is wrong with an origin, before anything is done with it.
func (o Origin) Check() error {
	mode := o.mode()
	if !slices.Contains(Modes, mode) {
		return fmt.Errorf("--binaries %q: want one of %s", o.Mode, join(Modes))
	}
	if o.Mirror == "" {
		if mode == FromMirror {
			return errors.New("--binaries mirror: it needs --mirror, a directory or a URL in the layout of " + site)
		}
		return nil
	}
	if mode != Auto && mode != FromMirror {
		return fmt.Errorf("--mirror %q: --binaries %s does not use a mirror; leave one of the two out", redact(o.Mirror), mode)
	}
	if u := webMirror(o.Mirror); u != nil {
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--mirror %q: want a directory, or a URL that begins with https:// or http://", redact(o.Mirror))
		}
		return nil
	}
	info, err := os.Stat(o.Mirror)
	if err != nil {
		return fmt.Errorf("--mirror: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("--mirror %q: want a directory or a URL, got a file", o.Mirror)
	}
	return nil
}

func (o Origin) mode() Mode { return cmp.Or(o.Mode, Auto) }

func join(modes []Mode) string {
	names := make([]string, 0, len(modes))
	for _, m := range modes {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

// webMirror is the URL that s is; nil when it is a path.
func webMirror(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || !strings.Contains(s, "://") {
		return nil
	}
	return u
}

// redact hides a password in a URL.
func redact(s string) string {
	if u := webMirror(s); u != nil {
		return u.Redacted()
	}
	return s
}

// sources are where a component may come from, in the order in which they are tried.
func (o Origin) sources(root string) ([]Source, error) {
	download, build := newRelease("download", cmp.Or(o.official, site), root), &Build{}
	switch o.mode() {
	case FromBuild:
		return []Source{build}, nil
	case FromDownload:
		return []Source{download, build}, nil
	}
	sources := []Source{download, build}
	if o.Mirror != "" {
		base := o.Mirror
		if webMirror(base) == nil {
			var err error
			if base, err = filepath.Abs(base); err != nil {
				return nil, err
			}
		}
		mirror := newRelease("mirror", base, root)
		if o.mode() == FromMirror {
			return []Source{mirror}, nil
		}
		sources = append([]Source{mirror}, sources...)
	}
	return sources, nil
}

// next says whether the next source may be tried after err: only where this one did not have the binary, or could not be reached. A download that is
// no option is not: Mode FromDownload builds only what the release site does not offer at all.
func (o Origin) next(err error) bool {
	var unavailable *UnavailableError
	return o.mode() == Auto && errors.As(err, &unavailable)
}

// rule says which sources may be asked, for what none of them has.
func (o Origin) rule() string {
	switch o.mode() {
	case FromMirror:
		return "--binaries mirror takes only what the mirror has"
	case FromDownload:
		return "--binaries download takes Kubernetes' components only from its release site"
	case FromBuild:
		return "--binaries build makes only what there is a Go module of"
	}
	return "none of the sources that --binaries auto asks has it"
}
