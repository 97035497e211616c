package steady_test

import (
	"errors"
	"strings"
	"testing"

	"headroom/drivers/steady"
)

func TestProgramRefusesFlags(t *testing.T) {
	// Nobody, root included, can make anything below /proc, so no case can end up serving.
	const endpoint, backend = "--endpoint=unix:///proc/nowhere/x.sock", "--backend=http://127.0.0.1:1"
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"help":           {[]string{"-h"}, 0, "-endpoint"},
		"unknown flag":   {[]string{"--nope"}, 2, "nope"},
		"argument":       {[]string{endpoint, backend, "stray"}, 2, `"stray"`},
		"no endpoint":    {[]string{backend}, 2, "--endpoint"},
		"relative":       {[]string{"--endpoint=unix://x", backend}, 2, "absolute"},
		"long path":      {[]string{"--endpoint=unix:///" + strings.Repeat("x", 120), backend}, 2, "shorter"},
		"no backend":     {[]string{endpoint}, 2, "--backend"},
		"persona":        {[]string{endpoint, backend, "--mode=controller", "--driver-name=d", "--persona=who"}, 2, "nobody"},
		"mode":           {[]string{endpoint, backend, "--mode=some"}, 2, `"some"`},
		"no driver name": {[]string{endpoint, backend, "--mode=controller"}, 2, "driver name"},
		"no state dir":   {[]string{endpoint, backend, "--mode=node", "--node-id=n1", "--driver-name=d"}, 2, "state directory"},
		"no node id":     {[]string{endpoint, backend, "--mode=all", "--state-dir=/proc/nowhere", "--driver-name=d"}, 2, "node id"},
		"figures": {[]string{endpoint, backend, "--mode=node", "--node-id=n1", "--driver-name=d", "--state-dir=/proc/nowhere", "--cache-age=1ms"}, 2,
			"cache age"},
		"lease": {[]string{endpoint, backend, "--mode=node", "--node-id=n1", "--driver-name=d", "--state-dir=/proc/nowhere", "--lease-life=0s"}, 2,
			"lease life"},
		"release": {[]string{endpoint, backend, "--mode=node", "--node-id=n1", "--driver-name=d", "--state-dir=/proc/nowhere", "--release=-1"}, 2,
			"got -1 and 0"},
		"no room to serve": {[]string{endpoint, backend, "--mode=controller", "--driver-name=d"}, 1, "/proc/nowhere"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			p := steady.Program{Stderr: &out, Persona: func(string) (steady.Mistakes, error) { return steady.Mistakes{}, errors.New("nobody") }}
			if code := p.Run(c.args); code != c.code || !strings.Contains(out.String(), c.want) {
				t.Fatalf("want code %d and %q, got %d and %q", c.code, c.want, code, out.String())
			}
		})
	}
}
