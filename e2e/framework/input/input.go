// Package input reads the files that people name for Headroom: definitions, scenarios, topologies, reports, manifests, archives.
//
// Contract: what cannot be read as a file is refused before it is read, so that nobody waits for what never comes: folders, devices, sockets, pipes that
// nobody writes into. Each error says what is there and what to do, and wraps what the system said. What is in the files is for others.
package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Error is a file that cannot be read.
type Error struct {
	Err    error
	Remedy string
}

func (e *Error) Error() string { return fmt.Sprintf("%v (remedy: %s)", e.Err, e.Remedy) }

func (e *Error) Unwrap() error { return e.Err }

// Read reads a file, or a pipe such as a shell's <(command), which can be read only once. remedy is what to do where there is no such file; "" is to correct
// the path.
func Read(path, remedy string) ([]byte, error) { return read(path, remedy, true) }

// ReadRegular is Read of a file that is read again later, and so is no pipe.
func ReadRegular(path, remedy string) ([]byte, error) { return read(path, remedy, false) }

// OpenRegular opens a file that ReadRegular would read.
func OpenRegular(path, remedy string) (*os.File, error) {
	f, _, err := open(path, remedy, false)
	return f, err
}

func read(path, remedy string, pipes bool) ([]byte, error) {
	f, pipe, err := open(path, remedy, pipes)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it is only read
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, &Error{err, "name a file that can be read"}
	}
	if pipe && len(data) == 0 {
		return nil, refused(path, "write it to a file, and name that", "nothing comes out of the pipe: nobody writes into it, or it was read already")
	}
	return data, nil
}

func open(path, remedy string, pipes bool) (f *os.File, pipe bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			at.Op = "open" // as if there had been no look before
		}
		return nil, false, failed(err, remedy)
	}
	flags := os.O_RDONLY
	switch mode := info.Mode(); {
	case mode.IsRegular():
	case mode.IsDir():
		return nil, false, refused(path, "name the file itself", "want a file, got a directory")
	case mode&fs.ModeNamedPipe != 0 && pipes:
		// Without a writer, opening would wait for one. So it does not, and there is nothing to read.
		flags, pipe = flags|syscall.O_NONBLOCK, true
	case mode&fs.ModeNamedPipe != 0:
		return nil, false, refused(path, "write it to a file, and name that", "want a file, got a pipe: it is read more than once")
	default:
		return nil, false, refused(path, "write it to a file, and name that", "want a file, got one of mode %s", mode)
	}
	f, err = os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, false, failed(err, remedy)
	}
	return f, pipe, nil
}

func refused(path, remedy, format string, args ...any) error {
	return &Error{&fs.PathError{Op: "read", Path: path, Err: fmt.Errorf(format, args...)}, remedy}
}

// failed says what to do about an error of the system's.
func failed(err error, remedy string) error {
	switch {
	case errors.Is(err, syscall.ELOOP):
		return &Error{err, "make the link name a file"}
	case errors.Is(err, fs.ErrPermission):
		return &Error{err, "make it readable for this user"}
	case remedy == "":
		return &Error{err, "correct the path"}
	}
	return &Error{err, remedy}
}
