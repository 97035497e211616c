package model

import "time"

// InUseThroughout returns the volumes of a driver that were in use on the node from the time from to the moment end, without a break.
func (m *Model) InUseThroughout(id ID, from time.Duration, end Stamp) map[VolumeID]bool {
	by := map[VolumeID][]*Use{}
	for _, u := range m.Uses(id.Node) {
		if v, ok := m.Volume(u); ok && v.Driver == id.Driver {
			by[v] = append(by[v], u)
		}
	}
	out := map[VolumeID]bool{}
	for v, uses := range by {
		if covers(uses, from, end) {
			out[v] = true
		}
	}
	return out
}

// covers says whether the uses, taken together, reach from the time from beyond end. They come in the order of their beginnings as seen.
func covers(uses []*Use, from time.Duration, end Stamp) bool {
	var reach *Stamp
	for _, u := range uses {
		switch {
		case u.From.At <= from && (reach == nil || reach.Before(u.To)):
			reach = &u.To
		case reach != nil && u.From.At > from && u.From.Before(*reach) && reach.Before(u.To):
			reach = &u.To
		}
	}
	return reach != nil && reach.At >= from && end.Before(*reach)
}
