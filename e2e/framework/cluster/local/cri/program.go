package cri

import (
	"math"
	"path"
	"strconv"
	"strings"
	"time"
)

// Program is what a container does, read from its command and arguments. They are joined by spaces (of `sh -c` only the script counts) and split
// at semicolons and newlines into statements:
//
//	sleep 5      sleep 1.5s      sleep infinity     take that long
//	exit 3       exit 3 after 2s                    end now, or after that long, with that code (0 to 255); what follows is not reached
//	ignore TERM                                     let a stop last its whole grace period (the code is then 137 instead of 143)
//
// Durations are seconds, or Go durations, and not negative. A program that sleeps and does not say exit ends with 0. Anything else, even in one
// statement, or nothing to sleep or exit by, runs until it is stopped.
type Program struct {
	// Exits is false for a program that runs until it is stopped.
	Exits bool
	// After is how long it runs when it exits by itself.
	After time.Duration
	// Code is its exit code then.
	Code int32
	// IgnoresTerm is true when only SIGKILL ends it early.
	IgnoresTerm bool
}

// ParseProgram reads the command and arguments of a container. There are no errors: see Program.
func ParseProgram(command, args []string) Program {
	words := append(append([]string(nil), command...), args...)
	if len(words) > 2 && isShell(words[0]) && words[1] == "-c" {
		words = words[2:3]
	}
	statements := strings.FieldsFunc(strings.Join(words, " "), func(r rune) bool { return r == ';' || r == '\n' })
	var p Program
	var endless, exited bool
	for _, statement := range statements {
		var w [4]string
		fields := strings.Fields(statement)
		if len(fields) == 0 || exited {
			continue
		}
		if len(fields) > len(w) {
			return Program{}
		}
		copy(w[:], fields)
		duration, code := "0", "0"
		switch {
		case w == [4]string{"ignore", "TERM"}:
			p.IgnoresTerm = true
			continue
		case w == [4]string{"sleep", "infinity"}:
			endless = true
		case w == [4]string{"sleep", w[1]}:
			duration = w[1]
		case w == [4]string{"exit", w[1]}:
			code, exited = w[1], true
		case w == [4]string{"exit", w[1], "after", w[3]}:
			code, duration, exited = w[1], w[3], true
		default:
			return Program{}
		}
		d, ok := parseDuration(duration)
		c, err := strconv.ParseUint(code, 10, 8)
		if !ok || err != nil || d > math.MaxInt64-p.After {
			return Program{}
		}
		p.Exits, p.After, p.Code = true, p.After+d, int32(c)
	}
	if endless {
		return Program{IgnoresTerm: p.IgnoresTerm}
	}
	return p
}

func isShell(word string) bool {
	switch path.Base(word) {
	case "sh", "bash", "ash", "dash":
		return true
	}
	return false
}

// parseDuration reads seconds ("5", "0.5") or a Go duration ("5s", "1m30s").
func parseDuration(s string) (time.Duration, bool) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		ns := seconds * float64(time.Second)
		return time.Duration(ns), ns >= 0 && ns < math.MaxInt64
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}
