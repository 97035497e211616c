package gate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Rule is something to do to calls. Of several rules that match a call the one added first applies. Calls of methods that the linked CSI
// specification does not have can be selected by Method and Node, delayed and failed, not more.
type Rule struct {
	// Method is the name without its service, "NodeGetInfo". Method, Volume and Node select calls; empty ones select all.
	Method string
	// Volume is the volume handle of the request.
	Volume string
	// Node is the gate's node, or for a controller the node id of the request.
	Node string
	// Times is how many calls the rule applies to; 0 means every one until it is removed.
	Times int

	// Delay is how long the call waits before it goes on to the driver. It ends early when the rule is removed or the client gives up.
	Delay time.Duration
	// Code fails the call without asking the driver, unless it is codes.OK. Message is the status message.
	Code    codes.Code
	Message string
	// MaxVolumes and NodeID replace the count and the node id in an OK answer of NodeGetInfo, and TopologyKey, when it is not empty, its topology: by one
	// segment with this key.
	MaxVolumes  *int64
	NodeID      *string
	TopologyKey string
	// Hold is how long the driver's answer is held back before the client gets it; it ends early like Delay. With it an older answer can be
	// made to arrive after a newer one.
	Hold time.Duration
}

// Rules is a set of rules that can be changed while calls are made. The zero value is empty. It is safe for concurrent use.
type Rules struct {
	mu   sync.Mutex
	list []*active
}

type active struct {
	Rule
	left    int
	removed chan struct{}
}

// Add makes a rule effective for calls that arrive from now on. The returned function removes it, and lets calls go that it keeps waiting;
// calling it again does nothing.
func (r *Rules) Add(rule Rule) (remove func()) {
	a := &active{Rule: rule, left: rule.Times, removed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, a)
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.drop(a)
		close(a.removed)
	})
}

// match returns the rule for a call and counts it; nil when there is none.
func (r *Rules) match(method, volume, node string) *active {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.list {
		if (a.Method != "" && a.Method != method) || (a.Volume != "" && a.Volume != volume) || (a.Node != "" && a.Node != node) {
			continue
		}
		if a.Times > 0 {
			if a.left--; a.left == 0 {
				r.drop(a)
			}
		}
		return a
	}
	return nil
}

func (r *Rules) drop(a *active) {
	r.list = slices.DeleteFunc(r.list, func(x *active) bool { return x == a })
}

// before does what the rule asks for before the driver is called. An error is the call's answer.
func (a *active) before(ctx context.Context) error {
	if a == nil {
		return nil
	}
	if err := a.wait(ctx, a.Delay); err != nil {
		return err
	}
	if a.Code != codes.OK {
		return status.Error(a.Code, a.Message)
	}
	return nil
}

// after does what the rule asks for when the driver has answered.
func (a *active) after(ctx context.Context, m method, resp frame, err error) (frame, error) {
	if a == nil {
		return resp, err
	}
	if late := a.wait(ctx, a.Hold); late != nil {
		return resp, late
	}
	if err == nil && a.rewrites() && m.name == nodeGetInfo && m.desc != nil {
		resp, err = a.rewrite(resp)
		if err != nil {
			return resp, status.Errorf(codes.Internal, "gate: answer of the driver does not decode: %v", err)
		}
	}
	return resp, err
}

// rewrites says whether answers are changed.
func (r Rule) rewrites() bool { return r.MaxVolumes != nil || r.NodeID != nil || r.TopologyKey != "" }

// rewrite changes an answer of NodeGetInfo; the rest of it, unknown fields included, stays.
func (r Rule) rewrite(f frame) (frame, error) {
	var info csi.NodeGetInfoResponse
	if err := proto.Unmarshal(f.bytes, &info); err != nil {
		return f, err
	}
	if r.MaxVolumes != nil {
		info.MaxVolumesPerNode = *r.MaxVolumes
	}
	if r.NodeID != nil {
		info.NodeId = *r.NodeID
	}
	if r.TopologyKey != "" {
		info.AccessibleTopology = &csi.Topology{Segments: map[string]string{r.TopologyKey: "1"}}
	}
	b, err := proto.Marshal(&info)
	return frame{b}, err
}

func (a *active) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.removed:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}
