package hostpathlike

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunRefuses(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"--endpoint=unix://" + t.TempDir() + "/s", "--nodeid=n1", "--statedir=" + t.TempDir()}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"help":                  {[]string{"-h"}, 0, "-attach-limit"},
		"unknown flag":          {append(base, "--proxy-endpoint=x"), 2, "proxy-endpoint"},
		"argument":              {append(base, "x"), 2, `"x"`},
		"no node":               {append(base, "--nodeid="), 2, "no node id"},
		"no name":               {append(base, "--drivername="), 2, "no driver name"},
		"endpoint":              {append(base, "--endpoint=tcp://x"), 2, "unix://"},
		"limit is no number":    {append(base, "--attach-limit=many"), 2, "attach-limit"},
		"state is a file":       {append(base, "--statedir=/dev/null"), 1, "/dev/null"},
		"state is damaged":      {append(base, "--statedir="+broken), 1, "read state"},
		"socket cannot be made": {append(base, "--endpoint=unix:///proc/nowhere/s"), 1, "/proc/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if code := Run(c.args, &out); code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("want code %d and %q, got %d and %q", c.code, c.want, code, out.String())
			}
		})
	}
}
