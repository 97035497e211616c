package observe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Counter reads one counter of a component's metrics, as /metrics shows them (the Prometheus text format). A counter with labels is not shown before it
// counted for the first time: it is 0 then, as long as all the text is metrics. Labels beyond those given are summed over.
func Counter(text io.Reader, name string, labels map[string]string) (float64, error) {
	value, _, err := counter(text, name, labels)
	return value, err
}

// counter is Counter that says whether the counter was shown.
func counter(text io.Reader, name string, labels map[string]string) (sum float64, shown bool, err error) {
	in := bufio.NewScanner(text)
	in.Buffer(nil, 1<<20)
	samples := 0
	for number := 1; in.Scan(); number++ {
		line := in.Text()
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		samples++
		end := max(0, strings.IndexAny(line, "{ "))
		value, found, err := sample(line[end:], labels)
		if err != nil {
			return 0, false, fmt.Errorf("metrics: line %d: %q: %w", number, line, err)
		}
		if found && line[:end] == name {
			sum, shown = sum+value, true
		}
	}
	if err := in.Err(); err != nil {
		return 0, false, fmt.Errorf("metrics: %w", err)
	}
	if samples == 0 {
		return 0, false, fmt.Errorf("metrics: want samples such as %s, got none", name)
	}
	return sum, shown, nil
}

// sample reads what follows a metric's name: labels, where there are any, the value, and perhaps a time.
func sample(rest string, want map[string]string) (value float64, found bool, err error) {
	got := map[string]string{}
	if strings.HasPrefix(rest, "{") {
		rest = rest[1:]
		for !strings.HasPrefix(rest, "}") {
			key, after, ok := strings.Cut(rest, "=")
			quoted, err := strconv.QuotedPrefix(after)
			if !ok || err != nil {
				return 0, false, fmt.Errorf("want labels as key=\"value\", got %q", rest)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return 0, false, fmt.Errorf("label %q: %w", key, err)
			}
			got[strings.TrimSpace(key)] = text
			rest = strings.TrimPrefix(after[len(quoted):], ",")
		}
		rest = rest[1:]
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, false, errors.New("want a value, got none")
	}
	if value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return 0, false, fmt.Errorf("value: want a number, got %q", fields[0])
	}
	for key, text := range want {
		if got[key] != text {
			return 0, false, nil
		}
	}
	return value, true, nil
}

// Gauge reads one value of a component's metrics and says whether it is shown. Labels beyond those given are summed over.
func Gauge(text io.Reader, name string, labels map[string]string) (value float64, shown bool, err error) {
	return counter(text, name, labels)
}
