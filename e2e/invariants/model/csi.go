package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// Methods of the calls that checkers look at, as in event keys.
const (
	NodeGetInfo      = "NodeGetInfo"
	CreateVolume     = "CreateVolume"
	DeleteVolume     = "DeleteVolume"
	Publish          = "ControllerPublishVolume"
	Unpublish        = "ControllerUnpublishVolume"
	GetInfo          = "GetInfo"
	NotifyRegistered = "NotifyRegistrationStatus"
)

// Call is one CSI call as one side of the gate saw it.
type Call struct {
	ID
	Method string
	Side   history.Side
	Volume string
	// Name is what a CreateVolume asks to call the volume.
	Name   string
	NodeID string
	// Invoked is when it was sent. Orphan says that this event is missing: Invoked is then the time of the completion.
	Invoked time.Duration
	Orphan  bool
	// Done is when it was answered; Forever when the history has no completion.
	Done time.Duration
	// Answered is the phase of the completion, "" without one.
	Answered history.Phase
	Code     uint32
	Message  string
	// Max is max_volumes_per_node of an OK NodeGetInfo answer; a missing field is 0 on the wire too.
	Max      int64
	Injected bool
	Scope    string
	// Start and End are the events; without a completion End is Start.
	Start, End history.Ref
}

// OK says that the call was answered with success.
func (c *Call) OK() bool { return c.Answered == history.OK && c.Code == 0 }

// Failed says that the call was answered with an error.
func (c *Call) Failed() bool { return c.Answered != "" && !c.OK() }

// Registration is one registration of a driver with a kubelet, as the registration socket saw it.
type Registration struct {
	ID
	// From is when the kubelet asked for the driver's info; At is when it told the outcome.
	From, At   time.Duration
	Registered bool
	Message    string
	Ref        history.Ref
	Scope      string
}

type callKey struct {
	source string
	side   history.Side
	op     string
}

// calls are the CSI calls, and what they say about registration.
type calls struct {
	open       map[callKey]*Call
	faces      map[ID][]string           // the CSI node ids that a driver gave of its node, the first few
	slowest    map[ID]time.Duration      // of the NodeGetInfo calls that are forgotten
	infos      map[ID][]*Call            // NodeGetInfo, client side, by invoke
	served     map[ID][]*Call            // NodeGetInfo, driver side, by invoke
	publish    map[string][]*Call        // driver side, by volume
	unpublish  map[string][]*Call        // the same
	told       map[callKey]time.Duration // registration outcomes that were folded
	asked      map[ID]time.Duration
	outcome    *Registration // of the event at hand
	registered table[ID, bool]
	nodeOf     map[ID]string // driver and CSI node id -> node
}

func newCalls() calls {
	return calls{
		open: map[callKey]*Call{}, faces: map[ID][]string{}, slowest: map[ID]time.Duration{}, infos: map[ID][]*Call{},
		served: map[ID][]*Call{}, publish: map[string][]*Call{}, unpublish: map[string][]*Call{}, told: map[callKey]time.Duration{},
		asked: map[ID]time.Duration{}, registered: table[ID, bool]{}, nodeOf: map[ID]string{},
	}
}

// sourceNode is the node that an event of csi/<node> belongs to, "" for controllers: what they call the node is its CSI id.
func sourceNode(e history.Event) string {
	rest := strings.TrimPrefix(e.Source, history.PrefixCSI)
	if strings.HasPrefix(rest, "controller/") {
		return ""
	}
	return cmp.Or(e.Node, rest)
}

func (c *calls) foldCall(e history.Event, b *history.CSICall) *Call {
	key := callKey{e.Source, b.Side, e.Op}
	call := c.open[key]
	switch {
	case e.Phase == history.Invoke:
		call = &Call{ID: ID{sourceNode(e), b.Driver}, Method: e.Key, Side: b.Side, Invoked: e.At, Done: Forever, Scope: e.Scope, Start: e.Ref()}
		if e.Op != "" {
			c.open[key] = call
		}
		defer c.index(call)
	case call == nil || call.Method != e.Key || call.Over() < e.At:
		call = &Call{ID: ID{sourceNode(e), b.Driver}, Method: e.Key, Side: b.Side, Invoked: e.At, Orphan: true, Scope: e.Scope, Start: e.Ref()}
		defer c.index(call)
	default:
		delete(c.open, key)
	}
	if b.Volume != "" {
		call.Volume = b.Volume
	}
	if b.Name != "" {
		call.Name = b.Name
	}
	if b.NodeID != "" {
		call.NodeID = b.NodeID
	}
	if call.Driver == "" {
		call.Driver = b.Driver
	}
	call.End = e.Ref()
	if e.Phase != history.Invoke {
		call.Done, call.Answered, call.Code, call.Message, call.Injected = e.At, e.Phase, b.Code, b.Message, b.Injected
		if b.MaxVolumes != nil {
			call.Max = *b.MaxVolumes
		}
		if call.Method == NodeGetInfo && call.OK() && call.NodeID != "" {
			c.nodeOf[ID{call.NodeID, call.Driver}] = call.Node
		}
	}
	if call.Node == "" {
		call.NodeID = cmp.Or(call.NodeID, e.Node)
		call.Node = c.node(call.Driver, call.NodeID)
	}
	c.face(call)
	c.registration(e, b, call)
	return call
}

// facesAtMost bounds the node ids remembered of one driver on one node.
const facesAtMost = 8

// face remembers by which CSI node ids a driver knows its node.
func (c *calls) face(call *Call) {
	if all := c.faces[call.ID]; call.Method == NodeGetInfo && call.Side == history.DriverSide && len(all) < facesAtMost && !slices.Contains(all, call.NodeID) {
		c.faces[call.ID] = append(all, call.NodeID)
	}
}

// node maps a CSI node id to its node; an id that no node gave as its own is taken for the node's name.
func (c *calls) node(driver, id string) string {
	if n, ok := c.nodeOf[ID{id, driver}]; ok {
		return n
	}
	return id
}

// index files a call once its fields are known.
func (c *calls) index(call *Call) {
	switch call.Method {
	case NodeGetInfo:
		if call.Side == history.ClientSide {
			c.infos[call.ID] = append(c.infos[call.ID], call)
		} else {
			c.served[call.ID] = append(c.served[call.ID], call)
		}
	case Publish:
		if call.Side == history.DriverSide {
			c.publish[call.Volume] = append(c.publish[call.Volume], call)
		}
	case Unpublish:
		if call.Side == history.DriverSide {
			c.unpublish[call.Volume] = append(c.unpublish[call.Volume], call)
		}
	}
}

// registration follows the registration socket. The outcome may be recorded at the call, at its completion, on either side: the first one counts.
func (c *calls) registration(e history.Event, b *history.CSICall, call *Call) {
	switch {
	case e.Key == GetInfo && (e.Phase == history.Invoke || call.Orphan):
		c.asked[call.ID] = e.At
	case e.Key == NotifyRegistered && b.Registered != nil:
		key := callKey{source: e.Source, op: e.Op}
		if _, told := c.told[key]; e.Op != "" && told {
			return
		}
		c.told[key] = e.At
		from, ok := c.asked[call.ID]
		if !ok || from < Minus(e.At, callLife) {
			from = e.At
		}
		delete(c.asked, call.ID)
		c.outcome = &Registration{
			ID: call.ID, From: from, At: e.At, Registered: *b.Registered, Message: b.Message, Ref: e.Ref(), Scope: e.Scope,
		}
		c.registered.of(call.ID).set(e.At, *b.Registered, e.Ref())
	}
}

// unregister ends the registration of every driver of node for which gone is true.
func (c *calls) unregister(node string, at time.Duration, ref history.Ref, gone func(driver string) bool) {
	for id, line := range c.registered {
		if p, _ := line.Back(0); id.Node == node && p.Value && gone(id.Driver) {
			line.set(at, false, ref)
		}
	}
}

// Infos returns the NodeGetInfo calls that the kubelet made, by the time they were sent.
func (c *calls) Infos(id ID) []*Call { return c.infos[id] }

// Served returns the NodeGetInfo calls that the driver got.
func (c *calls) Served(id ID) []*Call { return c.served[id] }

// Slowest is how long the slowest NodeGetInfo that the kubelet sent by t took, or has been taking.
func (m *Model) Slowest(id ID, t time.Duration) time.Duration {
	longest := m.slowest[id]
	for _, c := range m.infos[id] {
		if c.Invoked <= t {
			longest = max(longest, min(c.Over(), m.End())-c.Invoked)
		}
	}
	return longest
}

// Publishes returns the ControllerPublishVolume calls that drivers got for a volume.
func (c *calls) Publishes(volume string) []*Call { return c.publish[volume] }

// Unpublishes returns the ControllerUnpublishVolume calls that drivers got for a volume.
func (c *calls) Unpublishes(volume string) []*Call { return c.unpublish[volume] }

// ServedIDs returns every node and driver that got a NodeGetInfo call, in no order.
func (c *calls) ServedIDs() []ID { return keys(c.served) }

// Asked returns every node and driver whose kubelet made a NodeGetInfo call, in no order.
func (c *calls) Asked() []ID { return keys(c.infos) }

// Attempting says since when a kubelet has been asking for a driver's info without having told the outcome; false when it is not. One that did so too
// long before t has given up.
func (c *calls) Attempting(id ID, t time.Duration) (since time.Duration, ok bool) {
	since, ok = c.asked[id]
	return since, ok && since >= Minus(t, callLife)
}

// Registered returns over time whether the kubelet of id.Node had the driver registered, and false from when the kubelet went down or the
// entry left the CSINode. Times between a kubelet's question and its outcome count as before.
func (c *calls) Registered(id ID) *Timeline[bool] { return c.registered[id] }

// RegisteredIDs returns every node and driver of which a registration is in the history, in no order.
func (c *calls) RegisteredIDs() []ID { return keys(c.registered) }

func keys[K comparable, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
