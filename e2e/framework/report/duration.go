package report

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a time.Duration that reads and writes as "1m30s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the form of time.Duration.String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the form of time.ParseDuration: a number without a unit is an error.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// UnmarshalYAML is UnmarshalText with the line in its error.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	if err := d.UnmarshalText([]byte(n.Value)); err != nil {
		return fmt.Errorf("line %d: want a duration with a unit, such as 1.5s, got %q", n.Line, n.Value)
	}
	return nil
}

// UnmarshalYAML refuses what is no status.
func (s *Status) UnmarshalYAML(n *yaml.Node) error {
	switch v := Status(n.Value); v {
	case Held, Violated, Inconclusive, KnownUpstream, Expected, NotJudged, Skipped:
		*s = v
		return nil
	}
	return fmt.Errorf("line %d: status: want one of %s, %s, %s, %s, %s, %s, %s, got %q",
		n.Line, Held, Violated, Inconclusive, KnownUpstream, Expected, NotJudged, Skipped, n.Value)
}

// round cuts what nobody reads: microseconds are finer than any bound of an invariant.
func round(d time.Duration) Duration { return Duration(d.Round(time.Microsecond)) }

// seconds prints a duration for people: "42.1s".
func seconds(d Duration) string { return fmt.Sprintf("%.1fs", time.Duration(d).Seconds()) }

// offset prints a time of the run for people: "+12.345s".
func offset(d Duration) string { return fmt.Sprintf("+%.3fs", time.Duration(d).Seconds()) }
