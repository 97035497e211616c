package observe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

type raw = map[string]any

// fakeAPI is an API server in small: lists, and watches that continue after a revision.
type fakeAPI struct {
	*httptest.Server

	mu        sync.Mutex
	rev       int64
	objects   map[string]map[string]raw // path, key
	log       map[string][]logged       // path
	compacted int64                     // the oldest revision that a watch may start after
	in200     bool                      // 410 comes as an event of a watch rather than as its status
	down      bool                      // connections are dropped
	refuse    int                       // every request gets this status, if not 0
	empty     bool                      // watches are closed at once
	hold      bool                      // watches deliver nothing
	bookmarks bool                      // short watches get a bookmark
	requests  []request
	changed   chan struct{} // closed and replaced at each change
	broken    chan struct{} // closed and replaced to end all watches
}

type logged struct {
	kind string
	rev  int64
	obj  raw
}

type request struct {
	at    time.Time
	path  string
	watch bool
	from  string
}

const (
	csinodesPath = "/apis/storage.k8s.io/v1/csinodes"
	podsPath     = "/api/v1/pods"
	eventsPath   = "/api/v1/events"
)

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{
		rev: 100, objects: map[string]map[string]raw{}, log: map[string][]logged{}, bookmarks: true,
		changed: make(chan struct{}), broken: make(chan struct{}),
	}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.cut(func() {})
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *fakeAPI) config() *rest.Config { return &rest.Config{Host: f.URL} }

// with changes the server under its lock and wakes up its watches.
func (f *fakeAPI) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// cut ends all watches and changes the server before any comes back. What is put later reaches none of the watches that were open.
func (f *fakeAPI) cut(change func()) {
	f.with(func() {
		change()
		close(f.broken)
		f.broken = make(chan struct{})
	})
}

// obj returns an object with metadata; more is merged at the top.
func obj(namespace, name, uid string, more raw) raw {
	m := raw{"name": name, "uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z"}
	if namespace != "" {
		m["namespace"] = namespace
	}
	o := raw{"metadata": m}
	maps.Copy(o, more)
	return o
}

// put adds or changes an object and returns the revision.
func (f *fakeAPI) put(path string, o raw) (rev int64) {
	f.with(func() { rev = f.change(path, o, false) })
	return rev
}

func (f *fakeAPI) remove(path string, o raw) (rev int64) {
	f.with(func() { rev = f.change(path, o, true) })
	return rev
}

func (f *fakeAPI) change(path string, o raw, remove bool) int64 {
	f.rev++
	meta := maps.Clone(o["metadata"].(raw))
	meta["resourceVersion"] = strconv.FormatInt(f.rev, 10)
	o = maps.Clone(o)
	o["metadata"] = meta
	k := fmt.Sprint(meta["namespace"], "/", meta["name"])
	if f.objects[path] == nil {
		f.objects[path] = map[string]raw{}
	}
	_, exists := f.objects[path][k]
	kind := "ADDED"
	switch {
	case remove:
		kind = "DELETED"
		delete(f.objects[path], k)
	case exists:
		kind = "MODIFIED"
	}
	if !remove {
		f.objects[path][k] = o
	}
	f.log[path] = append(f.log[path], logged{kind, f.rev, o})
	return f.rev
}

func (f *fakeAPI) seen(match func(request) bool) []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []request
	for _, r := range f.requests {
		if match(r) {
			out = append(out, r)
		}
	}
	return out
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	watching := q.Get("watch") != ""
	f.mu.Lock()
	f.requests = append(f.requests, request{time.Now(), r.URL.Path, watching, q.Get("resourceVersion")})
	down, refuse, rev, broken := f.down, f.refuse, f.rev, f.broken
	objects := slices.Collect(maps.Values(f.objects[r.URL.Path]))
	ns, isNamespace := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	namespace, found := f.objects["/api/v1/namespaces"]["<nil>/"+ns]
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case down:
		panic(http.ErrAbortHandler)
	case refuse != 0:
		w.WriteHeader(refuse)
		_ = json.NewEncoder(w).Encode(status(refuse, "Whatever"))
	case isNamespace && found:
		_ = json.NewEncoder(w).Encode(typed(r.URL.Path, namespace))
	case isNamespace:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(status(http.StatusNotFound, "NotFound"))
	case watching:
		f.serveWatch(w, r, broken)
	default:
		slices.SortFunc(objects, func(a, b raw) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		list := typed(r.URL.Path, raw{"metadata": raw{"resourceVersion": strconv.FormatInt(rev, 10)}, "items": objects})
		list["kind"] = list["kind"].(string) + "List"
		_ = json.NewEncoder(w).Encode(list)
	}
}

func (f *fakeAPI) serveWatch(w http.ResponseWriter, r *http.Request, broken <-chan struct{}) {
	path := r.URL.Path
	from, _ := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	end := time.After(time.Duration(seconds) * time.Second)
	enc := json.NewEncoder(w)
	send := func(kind string, o raw) {
		_ = enc.Encode(raw{"type": kind, "object": o})
		w.(http.Flusher).Flush()
	}
	f.mu.Lock()
	expired, in200, empty := from < f.compacted, f.in200, f.empty
	f.mu.Unlock()
	if expired && !in200 {
		w.WriteHeader(http.StatusGone)
		_ = enc.Encode(status(http.StatusGone, "Expired"))
		return
	}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	if expired {
		send("ERROR", status(http.StatusGone, "Expired"))
		return
	}
	marked := false
	for !empty {
		f.mu.Lock()
		changed, rev := f.changed, f.rev
		deliver := !f.hold && f.broken == broken
		mark := f.bookmarks && path != eventsPath && seconds <= 3 && !marked && deliver
		var news []logged
		for _, l := range f.log[path] {
			if l.rev > from && deliver {
				news = append(news, l)
			}
		}
		f.mu.Unlock()
		for _, l := range news {
			send(l.kind, typed(path, l.obj))
			from = l.rev
		}
		if mark {
			marked, from = true, rev
			send("BOOKMARK", typed(path, raw{"metadata": raw{"resourceVersion": strconv.FormatInt(rev, 10)}}))
		}
		select {
		case <-changed:
		case <-broken:
			panic(http.ErrAbortHandler)
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func status(code int, reason string) raw {
	return raw{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "too old resource version"}
}

// typed returns o with the kind and version of the path.
func typed(path string, o raw) raw {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	o = maps.Clone(o)
	version, resource := "v1", parts[2]
	if parts[0] == "apis" {
		version, resource = parts[1]+"/"+parts[2], parts[3]
	}
	o["apiVersion"] = version
	o["kind"] = map[string]string{
		"csinodes": "CSINode", "csidrivers": "CSIDriver", "volumeattachments": "VolumeAttachment", "nodes": "Node", "pods": "Pod", "events": "Event",
		"persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumes": "PersistentVolume", "namespaces": "Namespace",
	}[resource]
	return o
}
