package cri

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	digestPrefix = "sha256:"
	// imageSize is every image's size in bytes; it must not be 0.
	imageSize = 1 << 20
)

// imageOf is the image that a name stands for: its id follows from the name, with the tag "latest" where there is neither tag nor digest. An id
// stands for itself.
func imageOf(name string) *runtimeapi.Image {
	if strings.HasPrefix(name, digestPrefix) {
		return &runtimeapi.Image{Id: name, Size: imageSize, Spec: &runtimeapi.ImageSpec{Image: name}}
	}
	repo, digest, byDigest := strings.Cut(name, "@")
	tag := "latest"
	if i := strings.LastIndex(repo, ":"); i > strings.LastIndex(repo, "/") { // else it is a registry's port
		repo, tag = repo[:i], repo[i+1:]
	}
	var tags []string
	full := repo + "@" + digest
	if !byDigest {
		full = repo + ":" + tag
		tags, digest = []string{full}, hash(full+" manifest")
	}
	return &runtimeapi.Image{
		Id: hash(full), RepoTags: tags, RepoDigests: []string{repo + "@" + digest}, Size: imageSize, Spec: &runtimeapi.ImageSpec{Image: full},
	}
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return digestPrefix + hex.EncodeToString(sum[:])
}

// imageRef is an image by digest.
func imageRef(i *runtimeapi.Image) string { return cmp.Or(first(i.GetRepoDigests()), i.GetId()) }

// shownName is an image by its friendliest name.
func shownName(i *runtimeapi.Image) string { return cmp.Or(first(i.GetRepoTags()), imageRef(i)) }

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// image resolves a request's image. The kubelet creates containers by id and adds the name that the user wrote.
func (s *Server) image(spec *runtimeapi.ImageSpec) *runtimeapi.Image {
	image := imageOf(spec.GetImage())
	if known := s.images[image.GetId()]; known != nil {
		return known
	}
	if named := spec.GetUserSpecifiedImage(); named != "" {
		if i := imageOf(named); i.GetId() == image.GetId() {
			return i
		}
	}
	return image
}

// PullImage has every image at once, and lists it from then on.
func (s *Server) PullImage(_ context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	image, err := s.requested(r.GetImage(), func(i *runtimeapi.Image) { s.images[i.GetId()] = i })
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: image.GetId()}, nil
}

// ImageStatus answers that the image is here, whatever it is, pulled or not and removed or not: so a pod never waits for an image, and the pull
// policies IfNotPresent and Never work alike.
func (s *Server) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	image, err := s.requested(r.GetImage(), func(*runtimeapi.Image) {})
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ImageStatusResponse{Image: image}, nil
}

// RemoveImage drops an image from the list. One that is not listed is no error.
func (s *Server) RemoveImage(_ context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	if _, err := s.requested(r.GetImage(), func(i *runtimeapi.Image) { delete(s.images, i.GetId()) }); err != nil {
		return nil, err
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// requested resolves an image and lets act do something about it under the lock.
func (s *Server) requested(spec *runtimeapi.ImageSpec, act func(*runtimeapi.Image)) (*runtimeapi.Image, error) {
	if spec.GetImage() == "" {
		return nil, status.Error(codes.InvalidArgument, "image: want a name or an id, got none")
	}
	if !knownHandler(spec.GetRuntimeHandler()) {
		return nil, status.Errorf(codes.InvalidArgument, "no runtime for %q is configured: want %q or none", spec.GetRuntimeHandler(), runtimeName)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	image := s.image(spec)
	act(image)
	return image, nil
}

// ImageFsInfo reports one file system. The kubelet takes the first and reads its used_bytes without asking whether they are there
// (cri_stats_provider.go, ImageFsStats); the directory must exist, or statistics of the node fail.
func (s *Server) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	usage := func(used uint64) []*runtimeapi.FilesystemUsage {
		return []*runtimeapi.FilesystemUsage{{
			Timestamp: stamp(s.clock.Now()), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: s.imageDir},
			UsedBytes: &runtimeapi.UInt64Value{Value: used}, InodesUsed: &runtimeapi.UInt64Value{},
		}}
	}
	return &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems: usage(uint64(len(s.images)) * imageSize), ContainerFilesystems: usage(0),
	}, nil
}
