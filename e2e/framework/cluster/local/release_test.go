package local

import (
	"testing"

	"headroom/e2e/framework/versions"
)

func TestReleases(t *testing.T) {
	c := &cellConfig{Drivers: map[string]string{"mine": "steady", "mine/2": "chatty"}, NewRelease: map[string]string{"mine": "mine/2"}}
	for release, want := range map[string]string{"": "steady", "1": "steady", "2": "chatty", "3": "chatty"} {
		def, err := c.release("mine", versions.Version(release))
		if err != nil || def.Name != want {
			t.Errorf("release %q: want %s, got %+v (%v)", release, want, def, err)
		}
	}
	c.NewRelease = nil
	if def, err := c.release("mine", "2"); err != nil || def.Name != "steady" {
		t.Errorf("a driver that plays its releases itself: want steady, got %+v (%v)", def, err)
	}
	c.NewRelease = map[string]string{"mine": "gone"}
	if def, err := c.release("mine", "2"); err == nil {
		t.Errorf("a definition that is not of the run: want an error, got %+v", def)
	}
}
