package local

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// TestComponentsWhileNodesComeAndGo lists the parts of a cell in which a node's agent cannot be asked.
func TestComponentsWhileNodesComeAndGo(t *testing.T) {
	for name, tc := range map[string]struct {
		up, goes bool
		want     string
	}{
		"not up yet":              {},
		"goes while it is asked":  {up: true, goes: true},
		"is there, but is silent": {up: true, want: "node n1: "},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cell{nodes: map[string]*node{}}
			c.nodes["n1"] = &node{name: "n1", up: tc.up, control: newControlClient(func(context.Context) (net.Conn, error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if tc.goes {
					delete(c.nodes, "n1")
				}
				return nil, errors.New("nobody listens")
			})}
			all, err := c.components(t.Context())
			if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) || len(all) != 0 {
				t.Errorf("want no components and the error %q, got %v, %v", tc.want, all, err)
			}
		})
	}
}
