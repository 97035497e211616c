package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReader reads anything as a history. It must say what is wrong with the file, by name, and never take a file without an end for a whole one.
func FuzzReader(f *testing.F) {
	header := `{"schema":"` + Schema + `","run":"r","seed":1,"provider":"local","versions":{},"params":{"slack":"2s","driver":{"name":"d"}}}` + "\n"
	end := `{"at":2,"src":"merge","seq":1,"ph":"observed","key":"merge/end","body":{"events":1}}` + "\n"
	for _, seed := range []string{
		"", "\n", header, header + end, header + `{"at":1,"src":"a","seq":1,"ph":"observed","key":"writer/open","body":{"run":"r"}}` + "\n" + end,
		header + `{"at":1,"src":"a","seq":1,"ph":"observed","key":"writer/open","body":{"run":"other"}}` + "\n" + end,
		header + `{"at":1,"src":"a","seq":1,"ph":"observed","body":[` + "\n", header + end + end, header + `{"at":-1,"src":"a","seq":1,"ph":"x"}` + "\n" + end,
		strings.Repeat("[", 1000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			if !strings.Contains(err.Error(), path) {
				t.Errorf("want the file's name, got %q", err)
			}
			return
		}
		defer r.Close()
		events, bad := 0, false
		for e, err := range r.All() {
			if err != nil {
				bad = true
				if !strings.Contains(err.Error(), path) {
					t.Errorf("want the file's name, got %q", err)
				}
				continue
			}
			if bad || e.Source == "" || e.Seq == 0 {
				t.Fatalf("want sound events before the error and none after it, got %+v", e)
			}
			events++
		}
		if !bad && strings.Count(string(data), "\n") < events+2 {
			t.Errorf("want a header, %d events and an end, got %q", events, data)
		}
	})
}
