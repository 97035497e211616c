package nodeimage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"headroom/e2e/framework/cluster/kind/archive"
	"headroom/e2e/framework/cluster/kind/engine"
)

// entrypoint is for people only: kind gives its own. The variable tells systemd where it is.
var changes = []string{
	"--change", `ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]`, "--change", "ENV container=docker",
}

// receive starts containerd and takes images from the standard input.
const receive = `set -e
containerd >/tmp/containerd.log 2>&1 & pid=$!
for i in $(seq 100); do ctr version >/dev/null 2>&1 && break; sleep 0.1; done
ctr --namespace k8s.io images import --digests --snapshotter overlayfs - || { code=$?; tail -n 5 /tmp/containerd.log >&2; exit $code; }
kill $pid
wait $pid || true
rm -f /tmp/containerd.log`

// build makes the file system, lets a container of it take the images, and keeps that container as the image.
func (b builder) build(ctx context.Context, ref string) (err error) {
	images, err := b.images(ctx)
	if err != nil {
		return err
	}
	pause, err := sandbox(images)
	if err != nil {
		return err
	}
	files, err := b.files(ctx, pause)
	if err != nil {
		return err
	}
	stage, err := engine.Stage()
	if err != nil {
		return err
	}
	err = stream(func(w io.Writer) error { return b.tree(w, files) }, func(r io.Reader) error {
		_, err := engine.Feed(ctx, r, append(append([]string{"import"}, changes...), "-", stage)...)
		return err
	})
	if err != nil {
		return err
	}
	undo := func(args ...string) {
		_, failed := engine.Run(context.WithoutCancel(ctx), args...)
		err = errors.Join(err, failed)
	}
	defer undo("rmi", stage)
	// The container has no label of ours, because the image would have it too; the network that it is in, and is named after, leads a sweep to it.
	place := fmt.Sprintf("headroom-build-%d", os.Getpid())
	if err := engine.MakeNetwork(ctx, place); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.RemoveCluster(context.WithoutCancel(ctx), place)) }()
	id, err := engine.Run(ctx, "create", "--privileged", "--name", place, "--network", place, "--entrypoint", "/bin/sleep", stage, "infinity")
	if err != nil {
		return err
	}
	if _, err := engine.Run(ctx, "start", id); err != nil {
		return err
	}
	err = stream(func(w io.Writer) error { return archive.Write(w, images...) }, func(r io.Reader) error {
		_, err := engine.Feed(ctx, r, "exec", "--interactive", id, "/bin/bash", "-c", receive)
		return err
	})
	if err != nil {
		return err
	}
	_, err = engine.Run(ctx, append(append([]string{"commit"}, changes...), id, ref)...)
	return err
}

// checkPrivileged lets the engine run a privileged container of nothing but a shell, before the long work that would be of no use otherwise.
func (r root) checkPrivileged(ctx context.Context) (err error) {
	stage, err := engine.Stage()
	if err != nil {
		return err
	}
	shell := archive.Image{Ref: stage, Files: []archive.File{{Path: "/bin/busybox", From: r.busybox}, {Path: "/bin/sh", Link: "busybox"}}}
	err = stream(func(w io.Writer) error { return archive.Write(w, shell) }, func(r io.Reader) error {
		_, err := engine.Feed(ctx, r, "load", "--quiet")
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		_, failed := engine.Run(context.WithoutCancel(ctx), "rmi", stage)
		err = errors.Join(err, failed)
	}()
	return engine.CheckPrivileged(ctx, stage)
}

// tree writes the Debian root and then files, as one archive. Where both have a file, the root's is left out: an archive has each once.
func (b builder) tree(w io.Writer, files []archive.File) error {
	in, err := os.Open(b.base.tar)
	if err != nil {
		return err
	}
	defer in.Close()
	replaced := map[string]bool{}
	for _, f := range files {
		replaced[path.Clean(f.Path)] = true
	}
	from, out := tar.NewReader(in), tar.NewWriter(w)
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", b.base.tar, err)
		}
		if replaced[path.Join("/", h.Name)] {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("copy %s: %w", h.Name, err)
		}
		if _, err := io.Copy(out, from); err != nil {
			return fmt.Errorf("copy %s: %w", h.Name, err)
		}
	}
	for _, f := range files {
		if err := f.AppendTo(out); err != nil {
			return fmt.Errorf("add %s: %w", f.Path, err)
		}
	}
	return out.Close()
}

// stream lets read take what write gives. Where both fail, the writer's failure is the cause, unless it only found the reader gone.
func stream(write func(io.Writer) error, read func(io.Reader) error) error {
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(w)
		w.CloseWithError(err)
		wrote <- err
	}()
	err := read(r)
	r.Close()
	if cause := <-wrote; cause != nil && !errors.Is(cause, io.ErrClosedPipe) {
		return errors.Join(cause, err)
	}
	return err
}
