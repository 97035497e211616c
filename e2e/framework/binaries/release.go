package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// release is the Source that takes finished executables from a site or a directory in the layout of the Kubernetes release site:
// <base>/<version>/bin/<os>/<arch>/<name>, with the SHA-256 in <name>.sha256. Nothing is used whose sum differs.
//
// A download that breaks off goes on where it stopped: in the same process, and after a kill in the next one, because what arrived is kept below the
// cache until it is complete. It is there under no name that anything runs.
type release struct {
	name string // download or mirror
	base string // a URL or an absolute path
	kept string // directory of incomplete downloads

	client *http.Client
	// stall is how long a server may send nothing.
	stall time.Duration
	// pause waits before the next try.
	pause func(context.Context, time.Duration) error
	// limit is the size in bytes above which a file is taken for a mistake.
	limit int64
	// down is why the site cannot be reached; it is not asked again for the other components.
	down error
}

const (
	// downloadTries is how often in a row a download may fail without bringing enoughBytes.
	downloadTries  = 5
	enoughBytes    = 64 << 10
	unreachedTries = 2 // where there was no connection at all
	// connectWithin bounds the time to a connection: where packets are dropped, nothing else would end it.
	connectWithin = 10 * time.Second
	stallAfter    = 30 * time.Second
	// maxBinary is ten times the largest component.
	maxBinary = 1 << 30
)

func newRelease(name, base, root string) *release {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: connectWithin, ResponseHeaderTimeout: stallAfter,
		DialContext: (&net.Dialer{Timeout: connectWithin}).DialContext,
	}
	return &release{
		name: name, base: strings.TrimRight(base, "/"), kept: filepath.Join(root, "partial"), stall: stallAfter, pause: sleep, limit: maxBinary,
		client: &http.Client{Transport: transport, CheckRedirect: keepTLS},
	}
}

// keepTLS refuses a redirect that leaves https: the sum that follows it would come from anybody.
func keepTLS(to *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("10 redirects")
	}
	if via[0].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return fmt.Errorf("a redirect from https to %s", to.URL.Redacted())
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// UnavailableError is a source that does not have a binary, or cannot be reached.
type UnavailableError struct {
	// Where is the URL or the path.
	Where string
	Err   error
	// Absent says that the source was asked and does not have it: to ask again changes nothing.
	Absent bool
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("%s: %v", e.Where, e.Err) }
func (e *UnavailableError) Unwrap() error { return e.Err }

// ChecksumError is a file that is not what its publisher says. It is never worked around.
type ChecksumError struct{ Where, Want, Got string }

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s: want SHA-256 %s, got %s", e.Where, e.Want, e.Got)
}

func (r *release) Name() string { return r.name }

func (r *release) Words() (doing, done string) {
	if webMirror(r.base) == nil {
		return "copying", "copied"
	}
	return "downloading", "downloaded"
}

// Offers says whether the site has a component at all: the Kubernetes release site has those of Kubernetes, a mirror what its owner put there.
func (r *release) Offers(c Component) bool { return r.name == "mirror" || c.Module == kubernetesModule }

// Inputs needs no network: the publisher's sum is checked when the file is fetched.
func (r *release) Inputs(_ context.Context, c Component) ([]string, error) {
	return []string{"from=" + redact(r.base), "place=" + place(c)}, nil
}

// place is where a component lies below the base.
func place(c Component) string {
	return path.Join(c.Version.String(), "bin", runtime.GOOS, runtime.GOARCH, c.Name)
}

// Fetch copies or downloads c's executable. A sum that differs is asked for a second time, from the first byte: a line that garbles is no attacker.
func (r *release) Fetch(ctx context.Context, c Component, file, _ string) error {
	if webMirror(r.base) == nil {
		return r.copy(c, file)
	}
	where := r.base + "/" + place(c)
	want, err := r.sum(ctx, where+".sha256")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.kept, 0o755); err != nil {
		return err
	}
	inputs, _ := r.Inputs(ctx, c) // it never fails
	part := filepath.Join(r.kept, key(c, inputs))
	for again := false; ; again = true {
		if err := r.download(ctx, where, part); err != nil {
			return err
		}
		got, _, err := digest(part)
		switch {
		case err != nil:
			return err
		case got == want:
			return errors.Join(os.Chmod(part, 0o755), os.Rename(part, file))
		}
		if err := os.Remove(part); err != nil {
			return err
		}
		if again {
			return &ChecksumError{Where: redact(where), Want: want, Got: got}
		}
	}
}

// copy takes c's executable from a directory.
func (r *release) copy(c Component, file string) (err error) {
	where := filepath.Join(r.base, filepath.FromSlash(place(c)))
	published, err := os.ReadFile(where + ".sha256")
	if err != nil {
		return unreadable(where+".sha256", err)
	}
	want, err := parseSum(published)
	if err != nil {
		return fmt.Errorf("%s.sha256: %w", where, err)
	}
	in, err := os.Open(where)
	if err != nil {
		return unreadable(where, err)
	}
	defer in.Close()
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if got, _, err := digest(file); err != nil || got != want {
		return errors.Join(err, &ChecksumError{Where: where, Want: want, Got: got})
	}
	return nil
}

// unreadable is a file of a mirror that is not there, or not for this user.
func unreadable(where string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // where says the rest
	}
	return &UnavailableError{Where: where, Err: err, Absent: errors.Is(err, fs.ErrNotExist)}
}

var sumForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parseSum reads a SHA-256 file: the sum alone, or followed by a file name.
func parseSum(text []byte) (string, error) {
	words := strings.Fields(string(text))
	if len(words) == 0 || !sumForm.MatchString(words[0]) {
		return "", fmt.Errorf("want a SHA-256 in 64 hexadecimal digits, got %q", tail(fmt.Sprintf("%.80s", text), 1))
	}
	return words[0], nil
}
