package binaries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// remoteError is a failure on the other side of the network, which another try may mend.
type remoteError struct{ error }

func (e remoteError) Unwrap() error { return e.error }

// refusal is an answer that no further try changes.
type refusal struct{ error }

func (e refusal) Unwrap() error { return e.error }

// noSuchFile is the answer that there is no such file, or none for those who ask.
var noSuchFile = []int{http.StatusNotFound, http.StatusGone, http.StatusForbidden, http.StatusUnauthorized}

// absence is a refusal because there is no such file.
type absence struct{ error }

func (e absence) Unwrap() error { return e.error }

var errStalled = errors.New("the server sent nothing")

// sum downloads a published SHA-256.
func (r *release) sum(ctx context.Context, where string) (string, error) {
	var text bytes.Buffer
	err := r.insist(ctx, where, func(ctx context.Context) (int64, error) {
		text.Reset()
		ctx, hangUp := context.WithCancelCause(ctx)
		defer hangUp(nil)
		resp, err := r.get(ctx, where, 0)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		const enough = 1 << 10
		return r.receive(hangUp, resp.Body, &text, enough)
	})
	if err != nil {
		return "", err
	}
	sum, err := parseSum(text.Bytes())
	if err != nil { // a login page, say
		return "", &UnavailableError{Where: redact(where), Err: err}
	}
	return sum, nil
}

// download brings a file to part, from where an earlier try stopped. On return without an error the server has said that this was all.
func (r *release) download(ctx context.Context, where, part string) error {
	return r.insist(ctx, where, func(ctx context.Context) (_ int64, err error) {
		f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		have, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return 0, err
		}
		ctx, hangUp := context.WithCancelCause(ctx)
		defer hangUp(nil)
		resp, err := r.get(ctx, where, have)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if !continues(resp, have) { // the server does not do ranges, or not this one: begin again
			if err := restart(f); err != nil {
				return 0, err
			}
			if resp.StatusCode != http.StatusOK {
				return 0, remoteError{fmt.Errorf("asked for the rest from byte %d, it answers %s, Content-Range %q", have, resp.Status, resp.Header.Get("Content-Range"))}
			}
			have = 0
		}
		return r.receive(hangUp, resp.Body, f, r.limit-have)
	})
}

// continues says whether an answer goes on at byte have.
func continues(resp *http.Response, have int64) bool {
	var from int64
	n, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &from)
	return have > 0 && resp.StatusCode == http.StatusPartialContent && err == nil && n == 1 && from == have
}

func restart(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// get asks for a file from byte have on. An answer that is no success is an error, but for one that refuses the range.
func (r *release) get(ctx context.Context, where string, have int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, refusal{err}
	}
	req.Header.Set("Accept-Encoding", "identity") // a range of a compressed file would be another
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, remoteError{err}
	}
	switch code := resp.StatusCode; {
	case code == http.StatusOK, have > 0 && (code == http.StatusPartialContent || code == http.StatusRequestedRangeNotSatisfiable):
		return resp, nil
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		err = remoteError{fmt.Errorf("it answers %s", resp.Status)}
	case slices.Contains(noSuchFile, code):
		err = refusal{absence{fmt.Errorf("it answers %s", resp.Status)}}
	default:
		err = refusal{fmt.Errorf("it answers %s", resp.Status)}
	}
	return nil, errors.Join(err, resp.Body.Close())
}

// receive copies a body until its end and returns how much came. A server that sends nothing for a while is hung up on.
func (r *release) receive(hangUp context.CancelCauseFunc, body io.Reader, to io.Writer, most int64) (got int64, err error) {
	var stalled atomic.Bool
	timer := time.AfterFunc(r.stall, func() {
		stalled.Store(true)
		hangUp(errStalled) // ends the read
	})
	defer timer.Stop()
	block := make([]byte, 64<<10)
	for {
		n, err := body.Read(block)
		if got += int64(n); got > most {
			return got, refusal{fmt.Errorf("want at most %d bytes more, got more than that", most)}
		}
		if _, err := to.Write(block[:n]); err != nil {
			return got, err
		}
		switch {
		case err == io.EOF:
			return got, nil
		case err != nil && stalled.Load():
			return got, remoteError{fmt.Errorf("%w for %s", errStalled, r.stall)}
		case err != nil:
			return got, remoteError{err}
		}
		timer.Reset(r.stall)
	}
}

// insist repeats what fails on the other side, with longer and longer pauses, until it has failed too often in a row without bringing anything. Failures
// of this side and answers that will not change end it at once.
func (r *release) insist(ctx context.Context, where string, try func(context.Context) (int64, error)) error {
	if r.down != nil {
		return &UnavailableError{Where: redact(where), Err: r.down}
	}
	for vain := 0; ; {
		got, err := try(ctx)
		var remote remoteError
		var never refusal
		var none absence
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &never):
			return &UnavailableError{Where: redact(where), Err: err, Absent: errors.As(err, &none)}
		case !errors.As(err, &remote):
			return err
		case got >= enoughBytes:
			vain = 0
		}
		vain++
		if vain >= downloadTries || vain >= unreachedTries && unreached(err) {
			err = fmt.Errorf("%w (tried %d times in a row)", err, vain)
			if unreached(err) {
				r.down = err
			}
			return &UnavailableError{Where: redact(where), Err: err}
		}
		if err := r.pause(ctx, time.Second<<(vain-1)); err != nil {
			return err
		}
	}
}

// unreached says whether no connection came about. Such a host will hardly be reached soon.
func unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}
