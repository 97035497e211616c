package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
)

func TestBinariesUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"build kubelett", `component "kubelett" is not known; known: kube-apiserver`},
		{"key --kubernetes v1.20.0", `--kubernetes: kubernetes version "v1.20.0" is not known; known: v1.32.13`},
		{"verify --kubernetes latest", `--kubernetes: version "latest": want MAJOR.MINOR.PATCH`},
		{"fetch --attacher 4.9", `--attacher: external-attacher version "v4.9" is not known; known: v4.11.0`},
		{"fetch --binaries site", `--binaries "site": want one of auto, cache, mirror, download, build`},
		{"fetch --binaries mirror", `--binaries mirror: it needs --mirror`},
		{"fetch --mirror /no/such/place", `--mirror: stat /no/such/place: no such file or directory`},
		{"build --binaries download", `--binaries download: this command builds`},
		{"bild", `unknown command "bild"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			cmd := binariesCommand()
			cmd.SetArgs(strings.Fields(c.args))
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			err := cmd.ExecuteContext(t.Context())
			if usage := (usageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want a usage error with %q, got %T: %v", c.want, err, err)
			}
		})
	}
}

func TestBinariesList(t *testing.T) {
	t.Setenv("HEADROOM_CACHE", t.TempDir())
	var out bytes.Buffer
	cmd := binariesCommand()
	cmd.SetArgs([]string{"--kubernetes", "1.35"})
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[0], "COMPONENT") || !strings.HasPrefix(lines[1], "kube-apiserver           v1.35.4  missing  -     -     /") {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestBinariesDamaged(t *testing.T) {
	all := []binaries.Status{
		{Component: binaries.Component{Name: "etcd", Version: "v3.6.16"}, State: binaries.Cached, Source: "build", Size: 27_250_850, Path: "/c/etcd"},
		{Component: binaries.Component{Name: "kubelet", Version: "v1.36.3"}, State: binaries.Damaged, Path: "/c/kubelet", Detail: "want 5 bytes, got 4"},
	}
	var out bytes.Buffer
	if err := printBinaries(&out, all); err != nil {
		t.Fatal(err)
	}
	want := "COMPONENT  VERSION  STATE    FROM   SIZE     PATH\n" +
		"etcd       v3.6.16  cached   build  27.3 MB  /c/etcd\n" +
		"kubelet    v1.36.3  damaged  -      -        want 5 bytes, got 4\n"
	if out.String() != want {
		t.Errorf("want:\n%s\ngot:\n%s", want, out.String())
	}
	var env *cluster.EnvironmentError
	if err := damaged(all); !errors.As(err, &env) || !strings.Contains(err.Error(), `["kubelet"]`) || env.Remedy != "headroom binaries fetch" {
		t.Errorf("got %v", damaged(all))
	}
	if err := damaged(all[:1]); err != nil {
		t.Errorf("nothing is damaged, got %v", err)
	}
}
