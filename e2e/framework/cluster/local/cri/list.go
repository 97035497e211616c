package cri

import (
	"cmp"
	"context"
	"maps"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// perMessage is how many items a streamed list has in a message.
const perMessage = 100

// stream sends a list in messages of at most perMessage items; an empty list is no message (gate CRIListStreaming, alpha in v1.36).
func stream[T, R any](items []T, send func(R) error, wrap func([]T) R) error {
	for part := range slices.Chunk(items, perMessage) {
		if err := send(wrap(part)); err != nil {
			return err
		}
	}
	return nil
}

// selects says whether labels have all that a selector asks for.
func selects(selector, labels map[string]string) bool {
	for k, want := range selector {
		if got, ok := labels[k]; !ok || got != want {
			return false
		}
	}
	return true
}

// sandboxesBy returns sandboxes of an id and labels, where given, in order of creation.
func (s *Server) sandboxesBy(id string, selector map[string]string) []*sandbox {
	var found []*sandbox
	for _, b := range s.sandboxes {
		if (id == "" || id == b.id) && selects(selector, b.config.GetLabels()) {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b *sandbox) int { return cmp.Compare(a.serial, b.serial) })
	return found
}

// containersBy returns containers of an id, a sandbox and labels, where given, as they are now and in order of creation.
func (s *Server) containersBy(id, sandboxID string, selector map[string]string) []*container {
	var found []*container
	for _, c := range s.containers {
		if (id == "" || id == c.id) && (sandboxID == "" || sandboxID == c.sandbox.id) && selects(selector, c.config.GetLabels()) {
			c.settle(s.clock.Now())
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *container) int { return cmp.Compare(a.serial, b.serial) })
	return found
}

func (s *Server) containersOf(b *sandbox) []*container { return s.containersBy("", b.id, nil) }

func (s *Server) listSandboxes(f *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []*runtimeapi.PodSandbox
	for _, b := range s.sandboxesBy(f.GetId(), f.GetLabelSelector()) {
		if f.GetState() != nil && f.GetState().GetState() != b.state() {
			continue
		}
		items = append(items, &runtimeapi.PodSandbox{
			Id: b.id, Metadata: b.config.GetMetadata(), State: b.state(), CreatedAt: stamp(b.created),
			Labels: b.config.GetLabels(), Annotations: b.config.GetAnnotations(), RuntimeHandler: b.handler,
		})
	}
	return items
}

// ListPodSandbox lists the sandboxes that match all of the filter, in order of creation.
func (s *Server) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: s.listSandboxes(r.GetFilter())}, nil
}

// StreamPodSandboxes is ListPodSandbox as a stream.
func (s *Server) StreamPodSandboxes(r *runtimeapi.StreamPodSandboxesRequest, to runtimeapi.RuntimeService_StreamPodSandboxesServer) error {
	return stream(s.listSandboxes(r.GetFilter()), to.Send, func(items []*runtimeapi.PodSandbox) *runtimeapi.StreamPodSandboxesResponse {
		return &runtimeapi.StreamPodSandboxesResponse{PodSandboxes: items}
	})
}

func (s *Server) listContainers(f *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []*runtimeapi.Container
	for _, c := range s.containersBy(f.GetId(), f.GetPodSandboxId(), f.GetLabelSelector()) {
		if f.GetState() == nil || f.GetState().GetState() == c.state {
			items = append(items, c.listed())
		}
	}
	return items
}

// ListContainers lists the containers that match all of the filter, exited ones too, in order of creation.
func (s *Server) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: s.listContainers(r.GetFilter())}, nil
}

// StreamContainers is ListContainers as a stream.
func (s *Server) StreamContainers(r *runtimeapi.StreamContainersRequest, to runtimeapi.RuntimeService_StreamContainersServer) error {
	return stream(s.listContainers(r.GetFilter()), to.Send, func(items []*runtimeapi.Container) *runtimeapi.StreamContainersResponse {
		return &runtimeapi.StreamContainersResponse{Containers: items}
	})
}

// listImages returns the images that were pulled or used by a container and not removed since, by name.
func (s *Server) listImages(f *runtimeapi.ImageFilter) []*runtimeapi.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	images := slices.SortedFunc(maps.Values(s.images), func(a, b *runtimeapi.Image) int { return cmp.Compare(shownName(a), shownName(b)) })
	if name := f.GetImage().GetImage(); name != "" {
		id := imageOf(name).GetId()
		images = slices.DeleteFunc(images, func(i *runtimeapi.Image) bool { return i.GetId() != id })
	}
	return images
}

// ListImages lists the images that were pulled or used by a container and not removed since, by name.
func (s *Server) ListImages(_ context.Context, r *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{Images: s.listImages(r.GetFilter())}, nil
}

// StreamImages is ListImages as a stream.
func (s *Server) StreamImages(r *runtimeapi.StreamImagesRequest, to runtimeapi.ImageService_StreamImagesServer) error {
	return stream(s.listImages(r.GetFilter()), to.Send, func(items []*runtimeapi.Image) *runtimeapi.StreamImagesResponse {
		return &runtimeapi.StreamImagesResponse{Images: items}
	})
}
