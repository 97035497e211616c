package cri

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestImageNames(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, c := range []struct{ name, shown, repo string }{
		{"busybox", "busybox:latest", "busybox@sha256:"},
		{"busybox:1.36", "busybox:1.36", "busybox@sha256:"},
		{"localhost:5000/a/b", "localhost:5000/a/b:latest", "localhost:5000/a/b@sha256:"},
		{"localhost:5000/a/b:v1", "localhost:5000/a/b:v1", "localhost:5000/a/b@sha256:"},
		{"a/b@" + digest, "a/b@" + digest, "a/b@" + digest},
		{"a/b:v1@" + digest, "a/b@" + digest, "a/b@" + digest},
		{digest, digest, digest},
	} {
		i := imageOf(c.name)
		if shownName(i) != c.shown || !strings.HasPrefix(imageRef(i), c.repo) || !strings.HasPrefix(i.Id, "sha256:") || i.Size == 0 {
			t.Errorf("image %q: want %q and %q, got %v", c.name, c.shown, c.repo, i)
		}
	}
	if imageOf("busybox").Id != imageOf("busybox:latest").Id || imageOf("busybox").Id == imageOf("busybox:1").Id {
		t.Error("ids: want one for a name with and without latest, another for another tag")
	}
}

func TestImages(t *testing.T) {
	h := start(t, Options{ImageDir: "/tmp"})
	spec := func(name string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: name} }
	listed := func(filter *runtimeapi.ImageFilter) string {
		var names []string
		for _, i := range must(h.images.ListImages(h.ctx, &runtimeapi.ListImagesRequest{Filter: filter})).Images {
			names = append(names, shownName(i))
		}
		return strings.Join(names, " ")
	}
	status := func(name string) *runtimeapi.Image {
		return must(h.images.ImageStatus(h.ctx, &runtimeapi.ImageStatusRequest{Image: spec(name)})).Image
	}
	want := func(what, want, got string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: want %q, got %q", what, want, got)
		}
	}
	id := status("app").GetId()
	want("images of a new runtime", "", listed(nil))
	ref := must(h.images.PullImage(h.ctx, &runtimeapi.PullImageRequest{Image: spec("app")})).ImageRef
	want("pulled reference", id, ref)
	want("status by id", "app:latest", shownName(status(id)))
	h.run(h.pod("p"), "c")
	want("images pulled and used", "app:latest example.org/app:v1", listed(nil))
	want("images by name", "app:latest", listed(&runtimeapi.ImageFilter{Image: spec("app")}))
	want("images by id", "app:latest", listed(&runtimeapi.ImageFilter{Image: spec(id)}))
	want("images by another name", "", listed(&runtimeapi.ImageFilter{Image: spec("none")}))
	stream := drain(must(h.images.StreamImages(h.ctx, &runtimeapi.StreamImagesRequest{})).Recv)
	if len(stream) != 1 || len(stream[0].Images) != 2 {
		t.Errorf("image stream: want one message of 2, got %v", stream)
	}
	info := must(h.images.ImageFsInfo(h.ctx, &runtimeapi.ImageFsInfoRequest{}))
	if len(info.ImageFilesystems) != 1 || len(info.ContainerFilesystems) != 1 {
		t.Fatalf("file systems: want one each, got %v", info)
	}
	if fs := info.ImageFilesystems[0]; fs.UsedBytes.GetValue() != 2*imageSize || fs.FsId.Mountpoint != "/tmp" || fs.Timestamp == 0 {
		t.Errorf("image file system: want 2 images on /tmp with a time, got %v", fs)
	}
	for range 2 {
		must(h.images.RemoveImage(h.ctx, &runtimeapi.RemoveImageRequest{Image: spec(id)}))
	}
	want("images after a removal", "example.org/app:v1", listed(nil))
	want("a removed image", id, status("app").GetId())

	_, err := h.images.PullImage(h.ctx, &runtimeapi.PullImageRequest{})
	wantCode(t, "pull of nothing", err, codes.InvalidArgument)
	_, err = h.images.ImageStatus(h.ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: "app", RuntimeHandler: "runc"}})
	wantCode(t, "status for an unknown handler", err, codes.InvalidArgument)
	_, err = h.images.RemoveImage(h.ctx, &runtimeapi.RemoveImageRequest{})
	wantCode(t, "removal of nothing", err, codes.InvalidArgument)
}

func TestPods(t *testing.T) {
	h := start(t, Options{})
	dir := tempDir(t)
	pod := h.pod("p")
	config := containerConfig("c", "exit 3")
	config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/m", HostPath: dir}}
	id := must(h.create(pod, config))
	if err := h.startContainer(id); err != nil {
		t.Fatal(err)
	}
	pods := h.server.Pods()
	if len(pods) != 1 || len(pods[0].Containers) != 1 {
		t.Fatalf("pods: want one with one container, got %+v", pods)
	}
	p, c := pods[0], pods[0].Containers[0]
	if p.ID != pod || p.Namespace != "ns" || p.Name != "p" || p.UID != "uid-p" || !p.Ready || p.IP != "10.88.0.2" || !p.Created.Equal(began) {
		t.Errorf("pod: got %+v", p)
	}
	if c.ID != id || c.State != "exited" || c.ExitCode != 3 || c.Reason != "Error" || c.Image != "example.org/app:v1" || c.HostPaths[0] != dir {
		t.Errorf("container: got %+v", c)
	}
}
