package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/input"
	"headroom/e2e/framework/strict"
)

// YAML is the text of report.yaml. Fields come in the order of the types, so that two reports can be compared line by line.
func (r Report) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(r), enc.Close()); err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return b.Bytes(), nil
}

// Read reads a report.yaml, strictly: unknown and repeated fields, durations without a unit, statuses that are none, another version of the
// format and counts that its rows do not bear out are errors that name the file and the line.
func Read(path string) (Report, error) {
	b, err := input.Read(path, "name the file of a report")
	if err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	return Decode(path, b)
}

// Decode is Read of a file's text; path is for messages.
func Decode(path string, b []byte) (Report, error) {
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if err := yaml.Unmarshal(b, &head); err != nil {
		return Report{}, fmt.Errorf("read report: %w", strict.Misread(path, b, err))
	}
	if head.APIVersion != APIVersion || head.Kind != Kind {
		return Report{}, fmt.Errorf("read report %s: want apiVersion %q and kind %q, got %q and %q: read it with the version of headroom that wrote it",
			path, APIVersion, Kind, head.APIVersion, head.Kind)
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	var r Report
	if err := dec.Decode(&r); err != nil {
		return Report{}, fmt.Errorf("read report: %w", strict.Misread(path, b, err))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Report{}, fmt.Errorf("read report %s: want one document, got more", path)
	}
	if err := r.complete(); err != nil {
		return Report{}, fmt.Errorf("read report %s: %w", path, err)
	}
	return r, nil
}

// complete finds what decoding cannot: rows without a status, and a summary that does not follow from the rows.
func (r Report) complete() error {
	for i, q := range r.Requirements {
		if q.ID == "" || q.Status == "" {
			return fmt.Errorf("requirements[%d]: want id and status, got %q and %q", i, q.ID, q.Status)
		}
	}
	for i, v := range r.Invariants {
		if v.Name == "" || v.Status == "" {
			return fmt.Errorf("invariants[%d]: want name and status, got %q and %q", i, v.Name, v.Status)
		}
	}
	if err := r.follows(); err != nil {
		return err
	}
	if got := r.Summarise(); got != r.Summary {
		return fmt.Errorf("summary: the rows say %+v, the file says %+v: it was edited; write it again with headroom check --write", got, r.Summary)
	}
	return nil
}
