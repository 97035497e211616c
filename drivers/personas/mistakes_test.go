package personas

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers/steady/policy"
	"headroom/e2e/framework/history"
	"headroom/fixtures/quota"
)

// answers is what NodeGetInfo answers as the backend changes; a failure is -99.
func answers(t *testing.T, persona string, changes ...func(*backend)) []int64 {
	t.Helper()
	b := eight()
	d := start(t, persona, b)
	var all []int64
	for _, change := range changes {
		change(b)
		info, err := d.NodeGetInfo(context.Background(), &csi.NodeGetInfoRequest{})
		if err != nil {
			all = append(all, -99)
			continue
		}
		all = append(all, info.MaxVolumesPerNode)
	}
	return all
}

// TestAnswers compares what each persona answers with what the reference driver answers in the same place.
func TestAnswers(t *testing.T) {
	same := func(*backend) {}
	set := func(limit, foreign, attached int64) func(*backend) {
		return func(b *backend) {
			b.quota, b.err = history.Quota{Limit: limit, Foreign: foreign, Attached: attached}, nil
		}
	}
	fails := func(b *backend) { b.err = &quota.Error{Status: 429, Reason: history.ReasonThrottled} }
	for _, tt := range []struct {
		persona     string
		changes     []func(*backend)
		right, want []int64
	}{
		{"zero-on-any-error", []func(*backend){same, fails, set(8, 0, 0)}, []int64{8, 8, 8}, []int64{8, 0, 8}},
		{"fails-registration-on-outage", []func(*backend){same, fails, set(8, 0, 0)}, []int64{8, 8, 8}, []int64{8, -99, 8}},
		{"remaining-not-total", []func(*backend){same, set(8, 0, 3), set(8, 0, 8)}, []int64{8, 8, 8}, []int64{8, 5, 1}},
		{"ignores-foreign", []func(*backend){same, set(8, 3, 0)}, []int64{8, 5}, []int64{8, 8}},
		{"never-refreshes", []func(*backend){fails, set(8, 0, 0), set(3, 0, 0), set(9, 0, 0)}, []int64{1, 8, 3, 9}, []int64{1, 8, 8, 8}},
		{"stale-cache", []func(*backend){same, set(3, 0, 0)}, []int64{8, 3}, []int64{8, 8}},
		{"negative", []func(*backend){same, set(-1, 0, 0), set(8, 0, 0)}, []int64{8, 1, 8}, []int64{8, -1, 8}},
		{"slow-stale-answer", []func(*backend){same, set(3, 0, 0), same, same}, []int64{8, 3, 3, 3}, []int64{8, 3, 8, 3}},
	} {
		if got := answers(t, "", tt.changes...); !slices.Equal(got, tt.right) {
			t.Errorf("the reference driver where %s is wrong: want %v, got %v", tt.persona, tt.right, got)
		}
		if got := answers(t, tt.persona, tt.changes...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: want %v, got %v", tt.persona, tt.want, got)
		}
	}
}

func TestPublishCodes(t *testing.T) {
	for _, tt := range []struct {
		persona, reason string
		right, want     codes.Code
	}{
		{"throttle-as-exhausted", history.ReasonThrottled, codes.Unavailable, codes.ResourceExhausted},
		{"throttle-as-exhausted", history.ReasonUnavailable, codes.Unavailable, codes.Unavailable},
		{"no-attach-check", history.ReasonFull, codes.ResourceExhausted, codes.OK},
		{"no-attach-check", history.ReasonForbidden, codes.PermissionDenied, codes.PermissionDenied},
	} {
		for persona, want := range map[string]codes.Code{"": tt.right, tt.persona: tt.want} {
			b := eight()
			b.err = &quota.Error{Status: 400, Reason: tt.reason}
			if got := publishCode(start(t, persona, b)); got != want {
				t.Errorf("%q, %s: want %s, got %s", persona, tt.reason, want, got)
			}
		}
	}
}

func TestNodeIDDrift(t *testing.T) {
	for persona, want := range map[string][]string{"": {"n1", "n1"}, "node-id-drift": {"n1", "n1-moved"}} {
		d := start(t, persona, eight())
		for _, id := range want {
			info, err := d.NodeGetInfo(context.Background(), &csi.NodeGetInfoRequest{})
			if err != nil || info.NodeId != id {
				t.Errorf("%q: want node id %q, got %q, error %v", persona, id, info.GetNodeId(), err)
			}
		}
	}
}

func TestDoublePublish(t *testing.T) {
	for persona, want := range map[string][]string{"": {"", ""}, "double-publish": {"call-1", "call-2"}} {
		b := eight()
		d := start(t, persona, b)
		for range want {
			if code := publishCode(d); code != codes.OK {
				t.Errorf("%q: want OK, got %s", persona, code)
			}
		}
		if !slices.Equal(b.tokens, want) {
			t.Errorf("%q: want tokens %q, got %q", persona, want, b.tokens)
		}
	}
}

func TestLeaksAttachments(t *testing.T) {
	for persona, want := range map[string][]string{"": {"v"}, "leaks-attachments": nil} {
		b := eight()
		_, err := start(t, persona, b).ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "v", NodeId: "n1"})
		if err != nil || !slices.Equal(b.detached, want) {
			t.Errorf("%q: want OK and %q detached, got %v and %q", persona, want, err, b.detached)
		}
	}
}

// TestFigures shows the personas whose mistake is another figure than the one that they declare.
func TestFigures(t *testing.T) {
	declared := policy.Config{MinInterval: time.Second, CacheAge: 2 * time.Second, LastGoodLife: time.Minute, Step: 2, StepInterval: 10 * time.Second}
	for name, wrong := range map[string]func(policy.Config) bool{
		"chatty": func(c policy.Config) bool {
			return c.MinInterval <= declared.MinInterval/5 && c.CacheAge <= declared.MinInterval/5
		},
		"no-jitter":     func(c policy.Config) bool { return c.OnDemand },
		"jump-recovery": func(c policy.Config) bool { return c.Step == 0 },
	} {
		p, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := p.Mistakes().Of(declared, nil)
		if err := got.Validate(); err != nil || !wrong(got) || wrong(declared) {
			t.Errorf("%s: want a wrong figure that works, got %+v, error %v", name, got, err)
		}
	}
}

// TestStaleCacheAsksAgain shows that the cache has an end.
func TestStaleCacheAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := eight()
		p, err := Find("stale-cache")
		if err != nil {
			t.Fatal(err)
		}
		_, wrong := p.Mistakes().Of(policy.Config{}, b)
		get := func() int64 {
			q, err := wrong.Get(context.Background(), "n1")
			if err != nil {
				return -99
			}
			return q.Limit
		}
		b.err = errors.New("down")
		first := get()
		b.err = nil
		second := get()
		b.quota.Limit = 3
		third := get()
		time.Sleep(staleFor)
		if got := []int64{first, second, third, get()}; !slices.Equal(got, []int64{-99, 8, 8, 3}) {
			t.Errorf("want the quota of a minute ago and then the newest, got %v", got)
		}
	})
}

// TestOldVersionServes lets release 1 learn of 8 volumes, release 2 take over and learn of 3, and release 1 come back.
func TestOldVersionServes(t *testing.T) {
	for persona, want := range map[string]int64{"": 3, "old-version-serves": 8} {
		b, dir := eight(), t.TempDir()
		if got := count(t, startRelease(t, persona, b, dir, 1)); got != 8 {
			t.Errorf("%q, release 1: want 8, got %d", persona, got)
		}
		b.quota = history.Quota{Limit: 3}
		if got := count(t, startRelease(t, persona, b, dir, 2)); got != 3 {
			t.Errorf("%q, release 2: want 3, got %d", persona, got)
		}
		if got := count(t, startRelease(t, persona, b, dir, 1)); got != want {
			t.Errorf("%q, release 1 again: want %d, got %d", persona, want, got)
		}
	}
}

// TestVolumesOfPersonas compares what becomes of a volume with what the reference driver makes of it.
func TestVolumesOfPersonas(t *testing.T) {
	create := &csi.CreateVolumeRequest{Name: "v", VolumeCapabilities: []*csi.VolumeCapability{{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}}}
	for persona, want := range map[string]struct {
		made, deleted codes.Code
		gone          []string
	}{
		"":              {codes.OK, codes.OK, []string{"v"}},
		"create-fails":  {codes.Internal, codes.OK, []string{"v"}},
		"create-hangs":  {codes.DeadlineExceeded, codes.OK, []string{"v"}},
		"delete-leaks":  {codes.OK, codes.OK, nil},
		"no-jitter":     {codes.OK, codes.OK, []string{"v"}}, // a wrong policy leaves volumes alone
		"stale-cache":   {codes.OK, codes.OK, []string{"v"}}, // and so does a wrong reading of the backend
		"all-internal":  {codes.OK, codes.OK, []string{"v"}},
		"node-id-drift": {codes.OK, codes.OK, []string{"v"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := eight()
			d := start(t, persona, b)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, made := d.CreateVolume(ctx, create)
			_, deleted := d.DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: "v"})
			if status.Code(made) != want.made || status.Code(deleted) != want.deleted || !slices.Equal(b.deleted, want.gone) {
				t.Errorf("%q: want %s, %s, deleted %q, got %v, %v, %q", persona, want.made, want.deleted, want.gone, made, deleted, b.deleted)
			}
		})
	}
}
