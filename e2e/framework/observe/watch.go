package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"headroom/e2e/framework/history"
)

// Watches are the running watches of a cluster's API.
type Watches struct {
	streams []*stream // what is recorded; the watch of namespaces is not among them
	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
	err     error
}

// Watch records every change of CSINodes, CSIDrivers, Nodes, Pods, PersistentVolumeClaims, PersistentVolumes, VolumeAttachments and Events to
// the sources "api/<resource>" below eventsDir. It returns once the state at the start is recorded for all of them, so that every later change
// is seen as such. ctx bounds that start only; the watches then run until Close, so that a run that is cancelled still has its end on record.
//
// Each watch event is one history event: nothing is squashed. A broken watch continues after the last revision it saw. Where the API server
// has dropped what came after that revision (as a restarted one has, for resources that it serves from its watch cache), m tells what was missed. Where
// it cannot, or is nil, the source gets a gap event that says between which revisions changes may be missing, followed by what differs as ADDED, MODIFIED
// and DELETED; such a DELETED has no Rev.
func Watch(ctx context.Context, cfg *rest.Config, eventsDir, run string, m Memory) (*Watches, error) {
	return start(ctx, cfg, eventsDir, run, defaultTiming, m)
}

func start(ctx context.Context, cfg *rest.Config, eventsDir, run string, t timing, m Memory) (*Watches, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter, cfg.Timeout = -1, nil, 0 // a time-out would end watches
	cfg.UserAgent = "headroom-observe"
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("watch the API: %w", err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &Watches{cancel: cancel}
	scopes := newScopes(c)
	namespaces := newStream(scopes.resource(c), t, nil, scopes, m)
	for _, r := range resources(c) {
		out, err := history.Create(eventsDir, run, history.PrefixAPI+r.name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("watch the API: %w", err), w.Close())
		}
		w.streams = append(w.streams, newStream(r, t, out, scopes, m))
	}
	// Namespaces first: their scopes are then known to the others.
	for _, group := range [][]*stream{{namespaces}, w.streams} {
		for _, s := range group {
			w.running.Go(func() { s.run(life) })
		}
		for _, s := range group {
			if err := s.ready(ctx); err != nil {
				return nil, errors.Join(fmt.Errorf("watch the API: %w", err), w.Close())
			}
		}
	}
	return w, nil
}

// ready waits for the first list.
func (s *stream) ready(ctx context.Context) error {
	select {
	case <-s.listed:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("first list of %s: %w (last error: %v)", s.name, context.Cause(ctx), s.failing)
	}
}

// Close ends the watches and closes their files. A source whose watch was broken at that time, or that a failed Sync left behind, gets a gap
// event: its end may be missing. So: Sync, then Close, then stop the API server. Closing twice is no error.
func (w *Watches) Close() error {
	w.closing.Do(func() {
		w.cancel()
		w.running.Wait()
		for _, s := range w.streams {
			if reason := s.unfinished(); reason != "" {
				s.out.Write(gap(reason))
			}
			w.err = errors.Join(w.err, s.out.Close())
		}
	})
	return w.err
}

// unfinished says why the end of the stream may be missing, "" if it is not.
func (s *stream) unfinished() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.from == "" && s.lost == "":
		return fmt.Sprintf("nothing was ever listed: %v", s.failing)
	case s.lost != "":
		return fmt.Sprintf("%s: changes after revision %d may be lost, and the watch was closed before the next list", s.lost, s.progress)
	case s.failing != nil:
		return fmt.Sprintf("the watch was broken when it was closed: changes after revision %d may be missing: %v", s.progress, s.failing)
	case s.behind != nil:
		return fmt.Sprintf("the end may be missing: %v", s.behind)
	}
	return ""
}
