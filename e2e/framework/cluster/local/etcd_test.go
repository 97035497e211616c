package local

import (
	"encoding/json"
	"reflect"
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
