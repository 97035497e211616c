package personas

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers/steady"
	"headroom/drivers/steady/policy"
	"headroom/e2e/framework/history"
	"headroom/fixtures/quota"
)

// backend answers as set; it fails with err when there is one, and notes the tokens of attaches, and what was detached.
type backend struct {
	quota  history.Quota
	err    error
	tokens []string
	// detached and deleted are the volumes that were taken off and away.
	detached, deleted []string
}

func (b *backend) Get(context.Context, string) (history.Quota, error) {
	return b.quota, b.err
}

func (b *backend) Attach(ctx context.Context, node, volume string, readOnly bool, secret string) (history.Quota, error) {
	return b.AttachToken(ctx, node, volume, readOnly, secret, "")
}

func (b *backend) AttachToken(_ context.Context, _, _ string, _ bool, _, token string) (history.Quota, error) {
	b.tokens = append(b.tokens, token)
	return history.Quota{}, b.err
}

func (b *backend) Detach(_ context.Context, _, volume string) error {
	b.detached = append(b.detached, volume)
	return b.err
}

func (b *backend) Find(context.Context, string) (string, error) { return "n1", b.err }

func (b *backend) CreateVolume(context.Context, string) error { return b.err }

func (b *backend) DeleteVolume(_ context.Context, volume string) error {
	b.deleted = append(b.deleted, volume)
	return b.err
}

// eight is a backend with room for 8 volumes.
func eight() *backend { return &backend{quota: history.Quota{Limit: 8}} }

// start makes the driver of a persona; "" is the reference driver.
func start(t *testing.T, name string, b *backend) *steady.Driver {
	t.Helper()
	return startRelease(t, name, b, t.TempDir(), 1)
}

// startRelease makes a release of the driver that keeps its state in dir.
func startRelease(t *testing.T, name string, b *backend, dir string, release int64) *steady.Driver {
	t.Helper()
	o := steady.Options{Mode: steady.ModeAll, DriverName: "d.test", NodeID: "n1", StateDir: dir, Release: release}
	if name != "" {
		p, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		o.Mistakes = p.Mistakes()
	}
	figures := policy.Config{MinInterval: time.Nanosecond, CacheAge: time.Nanosecond, LastGoodLife: time.Hour, QueryTimeout: time.Minute}
	figures, o.Backend = o.Mistakes.Of(figures, b)
	var err error
	o.Policy, err = policy.New(policy.Options{
		Node: "n1", Config: figures, Backend: o.Backend, Store: steady.StateFile(o.StateDir), Clock: policy.Machine{}, Rand: rand.New(rand.NewPCG(1, 1)),
		Lease: policy.Claim{Version: release, Life: time.Hour, Store: steady.LeaseFile(dir)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Policy.Close)
	d, err := steady.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func count(t *testing.T, d *steady.Driver) int64 {
	t.Helper()
	info, err := d.NodeGetInfo(context.Background(), &csi.NodeGetInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return info.MaxVolumesPerNode
}

func publishCode(d *steady.Driver) codes.Code {
	_, err := d.ControllerPublishVolume(context.Background(), &csi.ControllerPublishVolumeRequest{
		VolumeId: "v1", NodeId: "n1", VolumeCapability: &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		},
	})
	return status.Code(err)
}

func TestUnlimitedOnOutage(t *testing.T) {
	for name, want := range map[string]int64{"": 8, "unlimited-on-outage": 0} {
		b := eight()
		d := start(t, name, b)
		if got := count(t, d); got != 8 {
			t.Errorf("%q while the backend answers: want 8, got %d", name, got)
		}
		b.err = errors.New("down")
		if got := count(t, d); got != want {
			t.Errorf("%q in an outage: want %d, got %d", name, want, got)
		}
		b.err = nil
		if got := count(t, d); got != 8 {
			t.Errorf("%q after it: want 8, got %d", name, got)
		}
	}
}

func TestAllInternal(t *testing.T) {
	full := &quota.Error{Status: 409, Reason: history.ReasonFull}
	for name, want := range map[string]codes.Code{"": codes.ResourceExhausted, "all-internal": codes.Internal} {
		b := eight()
		d := start(t, name, b)
		if got := publishCode(d); got != codes.OK {
			t.Errorf("%q, accepted: want OK, got %s", name, got)
		}
		b.err = full
		if got := publishCode(d); got != want {
			t.Errorf("%q, full: want %s, got %s", name, want, got)
		}
	}
}

func TestRegistry(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) || !slices.Contains(names, "all-internal") || !slices.Contains(names, "unlimited-on-outage") {
		t.Fatalf("names: %q", names)
	}
	if _, err := Find("nobody"); err == nil || !strings.Contains(err.Error(), "all-internal") {
		t.Fatalf("want an error that lists the personas, got %v", err)
	}
	ok := Persona{Name: "all-internal", Doc: "d", Root: "r", Try: []string{"t"}, Mistakes: func() steady.Mistakes { return steady.Mistakes{} }}
	for what, p := range map[string]Persona{
		"taken": ok, "no root": {Name: "x", Doc: "d", Try: ok.Try, Mistakes: ok.Mistakes}, "no mistakes": {Name: "x", Doc: "d", Root: "r", Try: ok.Try},
		"nothing to try": {Name: "x", Doc: "d", Root: "r", Mistakes: ok.Mistakes},
		"a plan and none": {
			Name: "x", Doc: "d", Root: "r", Try: ok.Try, Mistakes: ok.Mistakes, Chaos: Chaos{Never: "no plan has it", Faults: []string{"quota"}},
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: want a panic", what)
				}
			}()
			register(p)
		}()
	}
}
