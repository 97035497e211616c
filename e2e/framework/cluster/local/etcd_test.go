package local

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

func TestReadChanges(t *testing.T) {
	const created = `{"result":{"header":{"revision":"12"},"created":true}}`
	const events = `{"result":{"events":[{"kv":{"key":"L2E=","create_revision":"5","mod_revision":"5","value":"eA=="}},
		{"kv":{"key":"L2E=","create_revision":"5","mod_revision":"6","value":"eQ=="}},
		{"type":"DELETE","kv":{"key":"L2E=","mod_revision":"7"},"prev_kv":{"key":"L2E=","value":"eQ=="}},
		{"kv":{"key":"L2I=","create_revision":"8","mod_revision":"8","value":"eg=="}}]}}`
	want := []cluster.Stored{
		{Key: "/a", Rev: 5, Created: true, Value: []byte("x")}, {Key: "/a", Rev: 6, Value: []byte("y")}, {Key: "/a", Rev: 7, Deleted: true, Value: []byte("y")},
	}
	got, err := readChanges(json.NewDecoder(strings.NewReader(created+events)), 7)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("want %+v, got %+v (%v)", want, got, err)
	}
	for name, answers := range map[string]string{
		"compacted":  `{"result":{"canceled":true,"compact_revision":"9"}}`,
		"refused":    `{"error":{"message":"no"}}`,
		"cut off":    created + events,
		"not JSON":   "<html>",
		"other JSON": `{"result":{"events":[{"kv":{"mod_revision":5}}]}}`,
	} {
		if got, err := readChanges(json.NewDecoder(strings.NewReader(answers)), 9); err == nil {
			t.Errorf("%s: want an error, got %+v", name, got)
		}
	}
}

// TestChangesAskAgain: an answer that breaks off is asked for again, and a refusal is taken as it is.
func TestChangesAskAgain(t *testing.T) {
	const whole = `{"result":{"events":[{"kv":{"key":"L2E=","create_revision":"5","mod_revision":"5","value":"eA=="}}]}}`
	for name, c := range map[string]struct {
		answers []string // the last one for ever; a status where it is none
		asked   int
		want    string // in the error
	}{
		"breaks off twice": {[]string{whole[:20], "502", whole}, 3, ""},
		"refused":          {[]string{`{"error":{"message":"no"}}`}, 1, "etcd refuses: no"},
		"compacted":        {[]string{`{"result":{"canceled":true,"compact_revision":"9"}}`}, 1, "compacted at revision 9"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := c.answers[min(asked, len(c.answers)-1)]
				asked++
				if code, err := strconv.Atoi(answer); err == nil {
					w.WriteHeader(code)
					return
				}
				_, _ = w.Write([]byte(answer)) // the client sees what is missing
			}))
			defer server.Close()
			control := newControlClient(func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
			})
			changes, err := (&Cluster{control: control}).Changes(t.Context(), 4, 5)
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q, got %v", c.want, err)
			}
			if asked != c.asked || err == nil && len(changes) != 1 {
				t.Errorf("want %d questions, got %d and %+v", c.asked, asked, changes)
			}
		})
	}
}
