package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"headroom/e2e/framework/cluster"
)

// Memory tells what changed after one revision and up to another, whatever became of the API server; see cluster.Remembering.
type Memory func(ctx context.Context, after, upTo int64) ([]cluster.Stored, error)

var errNoMemory = errors.New("nothing tells what was missed")

// remember returns every change of the resource after one revision and up to that of a list. It fails where these changes do not lead from what was
// seen to what was listed, for then they are not all.
func (s *stream) remember(ctx context.Context, listed map[string]seen, after, upTo int64) ([]change, error) {
	if s.memory == nil {
		return nil, errNoMemory
	}
	stored, err := s.memory(ctx, after, upTo)
	if err != nil {
		return nil, err
	}
	changes, err := s.changesOf(stored)
	if err != nil {
		return nil, err
	}
	state := map[string]int64{}
	s.mu.Lock()
	for k, o := range s.objects {
		state[k] = o.rev
	}
	s.mu.Unlock()
	for _, c := range changes {
		if c.kind == watch.Deleted {
			delete(state, key(c.obj))
		} else {
			state[key(c.obj)] = c.rev
		}
	}
	for k, o := range listed {
		if state[k] != o.rev {
			return nil, fmt.Errorf("the store's changes leave %q at revision %d, and the list has it at %d", k, state[k], o.rev)
		}
		delete(state, k)
	}
	for k := range state {
		return nil, fmt.Errorf("the store's changes leave %q, which the list does not have", k)
	}
	return changes, nil
}

// changesOf picks the changes of the stream's own resource and decodes them.
func (s *stream) changesOf(stored []cluster.Stored) ([]change, error) {
	var changes []change
	for _, c := range stored {
		if !strings.HasPrefix(c.Key, s.place) {
			continue
		}
		obj, err := decodeStored(c.Value)
		if err != nil {
			return nil, fmt.Errorf("decode %q of revision %d: %w", c.Key, c.Rev, err)
		}
		obj.SetResourceVersion(fmt.Sprint(c.Rev))
		kind := watch.Modified
		switch {
		case c.Deleted:
			kind = watch.Deleted
		case c.Created:
			kind = watch.Added
		}
		changes = append(changes, change{kind, obj, c.Rev})
	}
	return changes, nil
}

// decodeStored decodes an object as the API server keeps it: with the prefix of its protocol buffers, which the decoder knows.
func decodeStored(value []byte) (metav1.Object, error) {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	return meta.Accessor(o)
}
