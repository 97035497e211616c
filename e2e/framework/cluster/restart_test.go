package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"

	"headroom/e2e/framework/versions"
)

// part notes what was asked of it.
type part struct {
	asked []string
	fail  error
}

func (p *part) note(what string) error       { p.asked = append(p.asked, what); return p.fail }
func (p *part) ID() string                   { return "p" }
func (p *part) Version() versions.Version    { return "" }
func (p *part) Pause(context.Context) error  { return p.note("pause") }
func (p *part) Resume(context.Context) error { return p.note("resume") }
func (p *part) Stop(_ context.Context, how Signal) error {
	return p.note("stop " + string(how))
}
func (p *part) Start(_ context.Context, v versions.Version) error {
	return p.note("start " + string(v))
}

// kept is a part that something else starts again.
type kept struct{ part }

func (p *kept) Restart(_ context.Context, how Signal) error { return p.note("restart " + string(how)) }

func TestRestart(t *testing.T) {
	plain, alive, broken := &part{}, &kept{}, &part{fail: errors.New("broken")}
	if err := errors.Join(Restart(t.Context(), plain, Kill), Restart(t.Context(), alive, Terminate)); err != nil {
		t.Error(err)
	}
	if want := []string{"stop KILL", "start "}; !slices.Equal(plain.asked, want) {
		t.Errorf("want %q, got %q", want, plain.asked)
	}
	if want := []string{"restart TERM"}; !slices.Equal(alive.asked, want) {
		t.Errorf("what is kept alive: want %q, got %q", want, alive.asked)
	}
	if err := Restart(t.Context(), broken, Kill); !errors.Is(err, broken.fail) || len(broken.asked) != 1 {
		t.Errorf("want no start after a stop that failed, got %q (error: %v)", broken.asked, err)
	}
}
