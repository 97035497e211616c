package kind

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"

	"headroom/drivers"
	"headroom/e2e/framework/cluster/kind/archive"
	"headroom/e2e/framework/cluster/kind/sidecar"
	"headroom/fixtures/quota"
)

// programs are the names under which this binary runs in pods; each is a link to it, because the name it is called by says which program it is.
var programs = append([]string{quota.Program, sidecar.NodeGate, sidecar.ControllerGate}, drivers.Programs()...)

// program is the image of our own programs: this very executable, and those of drivers that have their own, with their definitions, which the gates read.
// Its tag is a hash of the executable.
func (c *Cluster) program() (archive.Image, error) {
	self, err := os.Executable()
	if err != nil {
		return archive.Image{}, err
	}
	sum, err := digest(self)
	if err != nil {
		return archive.Image{}, err
	}
	i := archive.Image{Ref: "headroom.dev/headroom:" + sum[:12], Files: []archive.File{{Path: "/usr/local/bin/headroom", From: self}}}
	for _, name := range programs {
		i.Files = append(i.Files, archive.File{Path: "/usr/local/bin/headroom:" + name, Link: "headroom"})
	}
	for _, reference := range c.Drivers {
		def, err := drivers.Load(reference)
		if err != nil {
			return i, err
		}
		files := def.Files()
		if drivers.IsFile(reference) {
			files = append(files, reference)
		}
		for _, path := range files {
			i.Files = append(i.Files, archive.File{Path: path, From: path})
		}
	}
	return i, nil
}

// words is a command as a container's. A program of this binary is found by its name, see programs.
func words(cmd *exec.Cmd) []string {
	if cmd.Path == "/proc/self/exe" {
		return cmd.Args
	}
	return append([]string{cmd.Path}, cmd.Args[1:]...)
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
