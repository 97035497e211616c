package invariants

import (
	"fmt"
	"iter"

	"headroom/e2e/framework/history"
)

// decoded is an event with what its decoder says of it; err is the error of reading, the last of all.
type decoded struct {
	history.Event
	body    any
	bodyErr error
	err     error
}

const (
	// batch is how many events change hands at once, and batches how many such wait at most: enough that neither side waits for the other, and little
	// beside what the checkers keep.
	batch   = 64
	batches = 2
)

// decoder is model.Decode, or a test's.
type decoder func(history.Event) (any, error)

// decode keeps a panic from the caller: an event that cannot be decoded is as good as lost.
func (f decoder) decode(e history.Event) (d decoded) {
	d.Event = e
	defer func() {
		if p := recover(); p != nil {
			d.bodyErr = fmt.Errorf("event %s: decoding its body panicked: %v", e.Ref(), p)
		}
	}()
	d.body, d.bodyErr = f(e)
	return d
}

// ahead reads and decodes events while those before them are judged, which takes as long. The order stays; what panics in events panics in the
// caller. Nothing goes on reading after the caller has left the loop.
func ahead(events iter.Seq2[history.Event, error], f decoder) iter.Seq[decoded] {
	return func(yield func(decoded) bool) {
		ready, left := make(chan []decoded, batches), make(chan struct{})
		var broken any
		go func() {
			defer close(ready)
			defer func() { broken = recover() }()
			next := make([]decoded, 0, batch)
			hand := func() bool {
				select {
				case ready <- next:
					next = make([]decoded, 0, batch)
					return true
				case <-left:
					return false
				}
			}
			for e, err := range events {
				d := decoded{err: err}
				if err == nil {
					d = f.decode(e)
				}
				if next = append(next, d); len(next) == batch && !hand() {
					return
				}
			}
			hand()
		}()
		defer func() {
			close(left)
			for range ready { // until the reader has stopped
			}
		}()
		for some := range ready {
			for _, d := range some {
				if !yield(d) {
					return
				}
			}
		}
		if broken != nil {
			panic(broken)
		}
	}
}
