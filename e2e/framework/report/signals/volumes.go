package signals

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// Writes are the writes of CSINodes by one user, those of the status and of no effect included.
type Writes struct {
	Writer string `json:"writer" yaml:"writer"`
	// Writes were answered; Refused of them with an error.
	Writes    int     `json:"writes" yaml:"writes"`
	Refused   int     `json:"refused" yaml:"refused"`
	PerSecond float64 `json:"perSecond" yaml:"perSecond"`
}

func (c *Collector) write(e history.Event, b *history.Audit) {
	if b.Resource != "csinodes" || e.Phase == history.Invoke || e.Phase == history.Unknown {
		return
	}
	w := c.writes[b.User]
	if w == nil {
		w = &written{}
		c.writes[b.User] = w
	}
	w.at = append(w.at, e.At)
	if e.Phase == history.Fail {
		w.refused = append(w.refused, e.At)
	}
}

// written are the times of one user's writes, and of those of them that were refused, oldest first.
type written struct{ at, refused []time.Duration }

// since counts those from a time on.
func (w *written) since(user string, from time.Duration) Writes {
	count := func(all []time.Duration) int {
		first, _ := slices.BinarySearch(all, from)
		return len(all) - first
	}
	return Writes{Writer: user, Writes: count(w.at), Refused: count(w.refused)}
}

// Level is how many volumes of a driver are on a node from At on.
type Level struct {
	At time.Duration
	// Attached have status.attached; Waiting have a VolumeAttachment that is not attached.
	Attached, Waiting int
	Ref               history.Ref
}

type attachment struct {
	id       model.ID
	attached bool
}

// Use follows VolumeAttachments: how many volumes of each driver are on each node.
type Use struct {
	attachments map[string]attachment
	levels      map[model.ID][]Level
}

// NewUse returns an empty Use.
func NewUse() *Use { return &Use{attachments: map[string]attachment{}, levels: map[model.ID][]Level{}} }

// Observe takes the next event of api/volumeattachments.
func (u *Use) Observe(e history.Event, b *history.VolumeAttachment) {
	old, known := u.attachments[e.Key]
	if known {
		u.shift(old, -1, e)
		delete(u.attachments, e.Key)
	}
	if b.Type != "DELETED" {
		now := attachment{model.ID{Node: b.NodeName, Driver: b.Attacher}, b.Attached}
		u.attachments[e.Key] = now
		u.shift(now, 1, e)
	}
}

// shift adds a level, or changes the one of the same event.
func (u *Use) shift(a attachment, by int, e history.Event) {
	all := u.levels[a.id]
	var l Level
	if n := len(all); n > 0 {
		l = all[n-1]
		if l.Ref == e.Ref() {
			all = all[:n-1]
		}
	}
	l.At, l.Ref = e.At, e.Ref()
	if a.attached {
		l.Attached += by
	} else {
		l.Waiting += by
	}
	u.levels[a.id] = append(all, l)
}

// Levels returns the levels of a driver on a node, oldest first. The caller must not change them.
func (u *Use) Levels(id model.ID) []Level { return u.levels[id] }

// IDs returns the drivers and nodes that have levels, in no order.
func (u *Use) IDs() []model.ID {
	var out []model.ID
	for id := range u.levels {
		out = append(out, id)
	}
	return out
}

// Volumes compares what a node has in use with what its CSINode says.
type Volumes struct {
	Node   string `json:"node" yaml:"node"`
	Driver string `json:"driver" yaml:"driver"`
	// Attached and Count are those at the end; a count of null is absent, which is unlimited.
	Attached int    `json:"attached" yaml:"attached"`
	Count    *int32 `json:"count" yaml:"count"`
	// MostAttached and MostWaiting are the highest numbers of attached volumes, and of volumes that were to be attached and were not.
	MostAttached int `json:"mostAttached" yaml:"mostAttached"`
	MostWaiting  int `json:"mostWaiting" yaml:"mostWaiting"`
	// FullSeconds and OverSeconds are for how long as many, or more, volumes were attached than the count.
	FullSeconds float64 `json:"fullSeconds" yaml:"fullSeconds"`
	OverSeconds float64 `json:"overSeconds" yaml:"overSeconds"`
}

func volumes(m *model.Model, use *Use, from time.Duration) []Volumes {
	ids := map[model.ID]bool{}
	for _, id := range use.IDs() {
		ids[id] = true
	}
	for _, name := range m.CSINodes() {
		for driver := range driversOf(m.Revisions(name)) {
			ids[model.ID{Node: name, Driver: driver}] = true
		}
	}
	var out []Volumes
	for id := range ids {
		out = append(out, inUse(m, use.Levels(id), id, from))
	}
	slices.SortFunc(out, func(a, b Volumes) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Driver, b.Driver))
	})
	return out
}

func inUse(m *model.Model, levels []Level, id model.ID, from time.Duration) Volumes {
	v := Volumes{Node: id.Node, Driver: id.Driver}
	revs := m.Revisions(id.Node)
	// The moments at which either number may change.
	var moments []time.Duration
	for i, l := range levels {
		if i+1 == len(levels) || levels[i+1].At > from {
			v.MostAttached, v.MostWaiting = max(v.MostAttached, l.Attached), max(v.MostWaiting, l.Waiting)
		}
		v.Attached = l.Attached
		moments = append(moments, l.At)
	}
	for _, r := range revs {
		moments = append(moments, r.At)
		if e, ok := r.Entry(id.Driver); ok {
			v.Count = e.Count
		}
	}
	slices.Sort(moments)
	var full, over time.Duration
	rev, level := 0, 0
	for i, at := range moments {
		end := m.End()
		if i+1 < len(moments) {
			end = moments[i+1]
		}
		for rev < len(revs) && revs[rev].At <= at {
			rev++
		}
		for level < len(levels) && levels[level].At <= at {
			level++
		}
		if rev == 0 || level == 0 {
			continue
		}
		e, ok := revs[rev-1].Entry(id.Driver)
		if !ok || e.Count == nil {
			continue
		}
		at = max(at, from)
		switch attached := levels[level-1].Attached; {
		case attached > int(*e.Count):
			over += max(0, end-at)
		case attached == int(*e.Count):
			full += max(0, end-at)
		}
	}
	v.FullSeconds, v.OverSeconds = inSeconds(full), inSeconds(over)
	return v
}
