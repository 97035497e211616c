package model

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
)

// TestDecodeAsEncodingJSON reads every event of the recorded and golden histories as encoding/json does, which wrote them: other options of the faster
// decoder would read other values.
func TestDecodeAsEncodingJSON(t *testing.T) {
	kinds := map[string]int{}
	for _, dir := range []string{"../../../fixtures/runs", "../../../fixtures/histories"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".jsonl") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			compareDecoders(t, path, content, kinds)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"CSICall", "Backend", "Component", "Beat", "Audit", "Fault", "Workload", "CSINode", "CSIDriver", "Node", "Pod", "PVC", "PV", "VolumeAttachment", "KubeEvent"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among the histories: nothing was compared", kind)
		}
	}
}

func compareDecoders(t *testing.T, path string, content []byte, kinds map[string]int) {
	r, err := history.Open(path)
	if err != nil {
		return // golden histories of what cannot be read
	}
	defer func() { _ = r.Close() }()
	lines := bytes.Split(content, []byte("\n"))[1:]
	line := 0
	for got, err := range r.All() {
		if err != nil {
			return
		}
		var want history.Event
		if err := json.Unmarshal(lines[line], &want); err != nil {
			t.Fatalf("%s:%d: %v", path, line+2, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:%d: want %+v, got %+v", path, line+2, want, got)
		}
		line++
		body, gotErr := Decode(got)
		if body == nil && gotErr == nil {
			continue
		}
		other := bodyOf(want.Source)
		wantErr := json.Unmarshal(want.Body, other)
		if (gotErr == nil) != (wantErr == nil) || gotErr == nil && !reflect.DeepEqual(body, other) {
			t.Errorf("%s:%d: body: want %+v (error %v), got %+v (error %v)", path, line+1, other, wantErr, body, gotErr)
		}
		kinds[reflect.TypeOf(other).Elem().Name()]++
	}
}
