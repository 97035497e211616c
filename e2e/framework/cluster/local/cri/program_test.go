package cri

import (
	"testing"
	"time"
)

func TestParseProgram(t *testing.T) {
	forever := Program{}
	for _, c := range []struct {
		command, args []string
		want          Program
	}{
		{nil, nil, forever},
		{[]string{"/pause"}, nil, forever},
		{[]string{"nginx", "-g", "daemon off;"}, nil, forever},
		{[]string{"sleep", "5s"}, nil, Program{Exits: true, After: 5 * time.Second}},
		{[]string{"sleep", "5"}, nil, Program{Exits: true, After: 5 * time.Second}},
		{[]string{"sleep"}, []string{"0.5"}, Program{Exits: true, After: 500 * time.Millisecond}},
		{nil, []string{"sleep 1m30s"}, Program{Exits: true, After: 90 * time.Second}},
		{[]string{"sleep", "infinity"}, nil, forever},
		{[]string{"exit 3"}, nil, Program{Exits: true, Code: 3}},
		{[]string{"exit", "0"}, nil, Program{Exits: true}},
		{[]string{"exit 3 after 2s"}, nil, Program{Exits: true, Code: 3, After: 2 * time.Second}},
		{[]string{"sh", "-c", "sleep 5; exit 7"}, nil, Program{Exits: true, Code: 7, After: 5 * time.Second}},
		{[]string{"/bin/sh", "-c"}, []string{"sleep 1\nsleep 2\n", "argv0"}, Program{Exits: true, After: 3 * time.Second}},
		{[]string{"exit 1; sleep 5; nonsense"}, nil, Program{Exits: true, Code: 1}},
		{[]string{"ignore TERM; sleep 5"}, nil, Program{Exits: true, After: 5 * time.Second, IgnoresTerm: true}},
		{[]string{"ignore TERM"}, nil, Program{IgnoresTerm: true}},
		{[]string{"ignore TERM; sleep infinity; exit 3"}, nil, Program{IgnoresTerm: true}},
		{[]string{"sleep 5; serve"}, nil, forever},
		{[]string{"sleep", "-1"}, nil, forever},
		{[]string{"sleep", "-1s"}, nil, forever},
		{[]string{"sleep", "NaN"}, nil, forever},
		{[]string{"sleep", "1e30"}, nil, forever},
		{[]string{"sleep", "9e9", ";", "sleep", "9e9"}, nil, forever},
		{[]string{"sleep", "five"}, nil, forever},
		{[]string{"sleep"}, nil, forever},
		{[]string{"exit", "256"}, nil, forever},
		{[]string{"exit", "-1"}, nil, forever},
		{[]string{"exit 3 after"}, nil, forever},
		{[]string{"exit 3 after 2s now"}, nil, forever},
	} {
		if got := ParseProgram(c.command, c.args); got != c.want {
			t.Errorf("program of %q %q: want %+v, got %+v", c.command, c.args, c.want, got)
		}
	}
}
