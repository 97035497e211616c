package cri

import "net/netip"

// addresses hands out the addresses of a range, each to one holder at a time. It goes round the range, as CNI's host-local does, so that an
// address that was just given back is not handed out next.
type addresses struct {
	prefix netip.Prefix
	// last is the address handed out last; at first the one before the first.
	last netip.Addr
	used map[netip.Addr]bool
}

func newAddresses(p netip.Prefix) *addresses {
	p = p.Masked()
	return &addresses{prefix: p, last: gateway(p), used: map[netip.Addr]bool{}}
}

// gateway is the second address of a range, which like the first and the last one no pod gets.
func gateway(p netip.Prefix) netip.Addr { return p.Addr().Next() }

// take returns a free address, or the zero address when there is none.
func (a *addresses) take() netip.Addr {
	for at := a.after(a.last); at.IsValid(); at = a.after(at) {
		if !a.used[at] {
			a.used[at] = true
			a.last = at
			return at
		}
		// All are used only after some were handed out, so last is one of them and the round ends there.
		if at == a.last {
			break
		}
	}
	return netip.Addr{}
}

// after is the address that follows at on the round; zero when the range has none for pods.
func (a *addresses) after(at netip.Addr) netip.Addr {
	if next := at.Next(); a.usable(next) {
		return next
	}
	if first := gateway(a.prefix).Next(); a.usable(first) {
		return first
	}
	return netip.Addr{}
}

func (a *addresses) usable(at netip.Addr) bool {
	return a.prefix.Contains(at) && a.prefix.Contains(at.Next())
}

// give takes an address back; the zero address is nobody's.
func (a *addresses) give(at netip.Addr) { delete(a.used, at) }
