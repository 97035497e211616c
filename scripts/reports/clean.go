package main

import (
	"path/filepath"
	"regexp"
	"strings"
)

// ofMachines are absolute paths below directories that differ from machine to machine. Those of a cell's own, such as /var/lib/kubelet, are the same everywhere.
var ofMachines = regexp.MustCompile(`/(?:home|root|tmp|work|mnt|builds|workspace|var/tmp|private|Users)(?:/[^\s"'` + "`" + `,;:()\\]*)+`)

// clean takes paths of the machine out of a report: its run directory is RUN-DIR, of others the last name is left.
func clean(text, dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		text = strings.ReplaceAll(text, abs, "RUN-DIR")
	}
	return ofMachines.ReplaceAllStringFunc(text, func(path string) string { return "PATH/" + filepath.Base(path) })
}
