// Package cri is a container runtime without containers: the CRI v1 services that a real kubelet (v1.32 to v1.37) needs, on a unix socket.
//
// It keeps pod sandboxes, containers and images as a runtime reports them, and lets containers run and exit in time (see Program), so that a
// kubelet's whole pod life cycle, volumes included, is real up to the point where a process would start. What a runtime checks is checked:
// names are reserved, states must fit, the host path of every mount must exist when a container is created and started.
//
// All state is in the Server and outlives connections, sockets and kubelets: a Server can stop serving and serve again, on the same path or
// another. State is bounded by what the kubelet has not removed yet; nothing is logged per call.
//
// It starts no process, makes no mount, cgroup or network, and pulls nothing. Exec, ExecSync, Attach, PortForward, CheckpointContainer and
// GetContainerEvents answer Unimplemented (so exec probes and hooks fail, and the kubelet finds out about exits by listing, once a second).
package cri

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// defaultPodCIDR is where pods get addresses unless Options say otherwise: CNI's usual bridge network.
var defaultPodCIDR = netip.MustParsePrefix("10.88.0.0/16")

// Options configure a Server. The zero value works.
type Options struct {
	// Clock is the time that containers run in and that timestamps are taken from; nil is the real clock.
	Clock clock.Clock
	// PodCIDR is the range of pod addresses, IPv4 or IPv6, without its first (network), second (gateway) and last address; invalid means
	// 10.88.0.0/16. No network is made, so ranges of different servers may overlap, but then pods share addresses.
	PodCIDR netip.Prefix
	// ImageDir is an existing directory on the file system that is reported as the image file system; empty means "/".
	ImageDir string
	// StartTime is how long a container takes to start; 0 is no time. A kubelet of 1.36 may set the phase of a pod back to Pending, for a minute, when its
	// container runs within milliseconds of its sandbox (pkg/kubelet/kubelet.go, OnPodSandboxReady writes a status that it read before).
	StartTime time.Duration
}

// Server is a runtime. Its methods are safe for concurrent use.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	clock     clock.Clock
	imageDir  string
	startTime time.Duration

	// mu guards what follows and every sandbox and container in it. Messages that are handed out (configurations, labels, resources) are
	// replaced and never changed in place, because they are encoded after the lock is gone.
	mu         sync.Mutex
	serial     uint64
	sandboxes  map[string]*sandbox
	containers map[string]*container
	// names maps reserved names to the id that holds them.
	names     map[string]string
	images    map[string]*runtimeapi.Image
	addresses *addresses
}

// New returns a runtime with no pods. It does not listen yet.
func New(o Options) *Server {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if !o.PodCIDR.IsValid() {
		o.PodCIDR = defaultPodCIDR
	}
	if o.ImageDir == "" {
		o.ImageDir = "/"
	}
	return &Server{
		clock:      o.Clock,
		imageDir:   o.ImageDir,
		startTime:  o.StartTime,
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		names:      map[string]string{},
		images:     map[string]*runtimeapi.Image{},
		addresses:  newAddresses(o.PodCIDR),
	}
}

// stamp is a time as CRI counts it, in nanoseconds since 1970; 0 is never.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// reserve gives name a new id, or says who holds the name. Ids look like a runtime's, 64 hex digits. They need no randomness: the name holds the
// pod's UID, the serial number tells holders of one name apart, and the time does so across two lives of a node.
func (s *Server) reserve(kind, name string) (string, uint64, error) {
	key := kind + " " + name
	if holder, taken := s.names[key]; taken {
		return "", 0, status.Errorf(codes.AlreadyExists, "failed to reserve %s name %q: name is reserved for %q", kind, name, holder)
	}
	s.serial++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", key, s.serial, stamp(s.clock.Now())))
	id := hex.EncodeToString(sum[:])
	s.names[key] = id
	return id, s.serial, nil
}

func (s *Server) release(kind, name string) { delete(s.names, kind+" "+name) }
