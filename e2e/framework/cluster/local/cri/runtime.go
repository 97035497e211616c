package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// runtimeName is the scheme of container ids in pod statuses ("headroom://...") and the name of the one runtime handler beside "".
	runtimeName = "headroom"
	// kubeletAPIVersion must be exactly this: the kubelet exits on any other (kuberuntime_manager.go, kubeRuntimeAPIVersion).
	kubeletAPIVersion = "0.1.0"
)

// Version answers what the kubelet asks first. The client refuses an answer with an empty field (cri-client remote_runtime.go, versionV1), and
// the runtime's version must read as a version number.
func (s *Server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: kubeletAPIVersion, RuntimeName: runtimeName, RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1",
	}, nil
}

// Status says that everything is ready. What v1.36.3 insists on:
//   - at least two conditions, or the client makes an error of it (remote_runtime.go, statusV1);
//   - RuntimeReady true, or the node is NotReady and the kubelet never starts cAdvisor, eviction and plugin registration, hence no CSI driver
//     (kubelet.go, updateRuntimeUp);
//   - NetworkReady true, or only pods on the host's network start (kubelet.go, SyncPod);
//   - nothing of runtime handlers and features: both may be absent. Handlers decide on recursiveReadOnly mounts (the default handler is "",
//     a RuntimeClass may name "headroom") and on hostUsers: false, which is refused here. Features go to node.status.features.
func (s *Server) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	features := func() *runtimeapi.RuntimeHandlerFeatures {
		return &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}
	}
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true},
			{Type: runtimeapi.NetworkReady, Status: true},
		}},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Name: "", Features: features()}, {Name: runtimeName, Features: features()}},
		Features:        &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}, nil
}

// RuntimeConfig names the cgroup driver, which overrides the kubelet's own setting (cmd/kubelet/app/server.go, getCgroupDriverFromCRI). An
// answer without Linux would leave that setting, and so does Unimplemented, for which the kubelet announces an end with v1.37. Any other error,
// and a driver that is neither systemd nor cgroupfs, ends the kubelet.
func (s *Server) RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{
		Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
	}, nil
}

// UpdateRuntimeConfig takes the node's pod CIDR and, like runtimes whose network is configured elsewhere, does nothing with it.
func (s *Server) UpdateRuntimeConfig(context.Context, *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// ListMetricDescriptors answers that there are no metrics.
func (s *Server) ListMetricDescriptors(
	context.Context, *runtimeapi.ListMetricDescriptorsRequest,
) (*runtimeapi.ListMetricDescriptorsResponse, error) {
	return &runtimeapi.ListMetricDescriptorsResponse{}, nil
}

// ListPodSandboxMetrics answers that there are no metrics.
func (s *Server) ListPodSandboxMetrics(
	context.Context, *runtimeapi.ListPodSandboxMetricsRequest,
) (*runtimeapi.ListPodSandboxMetricsResponse, error) {
	return &runtimeapi.ListPodSandboxMetricsResponse{}, nil
}

// StreamPodSandboxMetrics is ListPodSandboxMetrics as a stream: it ends at once.
func (s *Server) StreamPodSandboxMetrics(
	*runtimeapi.StreamPodSandboxMetricsRequest, runtimeapi.RuntimeService_StreamPodSandboxMetricsServer,
) error {
	return nil
}

func knownHandler(name string) bool { return name == "" || name == runtimeName }
