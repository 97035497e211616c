// Package hostpathlike stands in for csi-driver-host-path where its binary cannot be had: the same flags, and the same answers about volumes and attaching.
//
// Contract: what a client sees of GetPluginInfo, capabilities, CreateVolume, DeleteVolume, ControllerPublishVolume, ControllerUnpublishVolume, NodeGetInfo
// and of staging and publishing is what the driver's v1.17 answers (kubernetes-csi/csi-driver-host-path, pkg/hostpath); drivers.TestHostpathContract holds
// both to it. One process serves all three services and knows its own node and volumes only. The limit is fixed at start: --attach-limit is reported and enforced, --maxvolumespernode is reported and
// not enforced, and --attach-limit=-1 reports a random number from 1 to 10 and enforces nothing.
//
// Volumes are folders in the state directory, bind-mounted where they are published. It has no block volumes, snapshots, clones, capacity or expansion.
package hostpathlike

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// topologyKey is the one topology key of the driver.
const topologyKey = "topology.hostpath.csi/node"

// config is what the flags say.
type config struct {
	driverName, nodeID, stateDir   string
	enableAttach, enableTopology   bool
	attachLimit, maxVolumesPerNode int64
	maxVolumeSize                  int64
}

// volume is what is known of a volume.
type volume struct {
	ID       string `json:"volID"`
	Name     string `json:"volName"`
	Size     int64  `json:"volSize"`
	Attached bool   `json:"attached"`
	ReadOnly bool   `json:"readOnlyAttach"`
	// Staged is where the volume is staged, Published where it is mounted.
	Staged    string   `json:"staged"`
	Published []string `json:"published"`
}

// driver serves all three services.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	config

	mu      sync.Mutex
	volumes map[string]*volume // by id
}

// newDriver reads what an earlier process left in the state directory.
func newDriver(c config) (*driver, error) {
	d := &driver{config: c, volumes: map[string]*volume{}}
	if err := os.MkdirAll(c.stateDir, 0o755); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(d.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &d.volumes)
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return d, nil
}

func (d *driver) stateFile() string { return filepath.Join(d.stateDir, "state.json") }

// save keeps the volumes for the next process. The lock is held.
func (d *driver) save() error {
	b, err := json.Marshal(d.volumes)
	if err != nil {
		return err
	}
	temp := d.stateFile() + ".new"
	if err := os.WriteFile(temp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, d.stateFile())
}

// attachments counts the attached volumes. The lock is held.
func (d *driver) attachments() (n int64) {
	for _, v := range d.volumes {
		if v.Attached {
			n++
		}
	}
	return n
}
