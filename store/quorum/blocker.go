package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// This file judges the claims of others that the nodes show.

// blocker returns the claim that stands in the way on a majority of the nodes, or nil.
func (m majority) blocker(votes []vote) *driver.ClaimInfo {
	for _, v := range votes {
		if v.refuses() && m.standing(votes, v.place.Blocker) >= m.need {
			return &v.place.Blocker
		}
	}
	return nil
}

// waiting returns the place of a claim that other claims keep out.
func (m majority) waiting(c *driver.Claim, votes []vote) driver.Place {
	p := driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1}
	if c.Try {
		p.Ticket, p.TTL = 0, 0
	}
	var free []time.Duration // when each node may be free, if known
	most := 0
	for _, v := range votes {
		switch {
		case v.grants():
			free = append(free, 0)
		case v.refuses():
			free = append(free, v.place.Retry)
			// Of two claims on equally many nodes, the older one most likely has left, and is about to leave the rest.
			same := m.standing(votes, v.place.Blocker)
			// Of two records of one claim, the later one is shown.
			b := &v.place.Blocker
			if same > most || same == most && (m.newer(b, &p.Blocker) || m.same(*b, p.Blocker) && later(b.Record, p.Blocker.Record)) {
				p.Blocker, most = v.place.Blocker, same
			}
		}
	}
	if !m.ranked {
		p.Blocker.Ticket = 0 // it has another ticket on each node
	}
	p.Blocker = m.shown(p.Blocker)
	slices.Sort(free)
	if len(free) >= m.need {
		p.Retry = free[m.need-1]
	}
	return p
}

// standing counts the nodes where a claim stands in the way.
func (m majority) standing(votes []vote, b driver.ClaimInfo) (n int) {
	for _, v := range votes {
		if v.refuses() && m.same(v.place.Blocker, b) {
			n++
		}
	}
	return n
}

// newer reports whether claim a came later than b: by its ticket or, if each node gives tickets by its own clock, by its
// age.
func (m majority) newer(a, b *driver.ClaimInfo) bool {
	if m.ranked {
		return a.Ticket > b.Ticket
	}
	return a.Since < b.Since
}

// same reports whether two nodes show one claim, as far as their answers show. A changed claim has the ticket that a
// majority confirmed, and may have different records.
func (m majority) same(a, b driver.ClaimInfo) bool {
	if !m.ranked {
		return a.Record == b.Record
	}
	return a.Ticket == b.Ticket && (a.Record == b.Record || changed(a) || changed(b))
}

// changed reports whether a claim got another record, as one node shows it.
func changed(c driver.ClaimInfo) bool {
	_, version := CutVersion(c.Record)
	return version > 0
}

// shown returns a claim as observers see it.
func (m majority) shown(c driver.ClaimInfo) driver.ClaimInfo {
	if m.ranked {
		c.Record, _ = CutVersion(c.Record)
	}
	return c
}

// agreed returns the claim that a majority shows.
func (m majority) agreed(shown []driver.ClaimInfo) (c driver.ClaimInfo, ok bool) {
	for _, a := range shown {
		var same []driver.ClaimInfo
		for _, b := range shown {
			if m.same(a, b) && a.Left == b.Left {
				same = append(same, b)
			}
		}
		if len(same) >= m.need {
			return m.merged(same), true
		}
	}
	return driver.ClaimInfo{}, false
}

// merged returns a claim as observers see it, by what at least a majority of the nodes shows of it: the latest record, the
// longest time since it entered, since a node that was given the claim again shows less, and the lease of a majority.
func (m majority) merged(same []driver.ClaimInfo) driver.ClaimInfo {
	c := same[0]
	var leases []time.Duration
	for _, s := range same {
		if later(s.Record, c.Record) {
			c.Record = s.Record
		}
		c.Since = max(c.Since, s.Since)
		leases = append(leases, s.Remaining)
	}
	c.Remaining = m.lasting(leases)
	return m.shown(c)
}

// broken returns the outcome of removing a claim from all nodes, or of asking for it there. The claim was there if a
// majority had it, and was not if no node had it. If fewer nodes had it, they have removed it, and the outcome is unknown.
// For a claim that is just entering may hear one node's vote, lose the entry there to this removal, then hear other nodes'
// votes, and take itself for one with a majority. To ask a claim for the lock, a majority of nodes must know the claim: one
// of them is in the majority by which the claim is renewed.
func (m majority) broken(ask bool, removed []driver.ClaimInfo, errs []error) (driver.ClaimInfo, error) {
	gone := 0
	for _, err := range errs {
		if errors.Is(err, driver.ErrGone) {
			gone++
		}
	}
	switch {
	case len(removed) >= m.need:
		return m.merged(removed), nil
	case len(removed) > 0 && !ask:
		return driver.ClaimInfo{}, driver.Unknown(fmt.Errorf("%d of %d servers had a claim, which is removed there: whether "+
			"that claim was coming, leaving or left over is not known; ask again to be certain", len(removed), len(m.names)))
	case m.prevents(gone):
		return driver.ClaimInfo{}, driver.ErrGone
	}
	for _, err := range errs {
		switch {
		case errors.Is(err, driver.ErrUnsupported):
			return driver.ClaimInfo{}, err
		case !errors.Is(err, driver.ErrGone):
			return driver.ClaimInfo{}, driver.Unreachable(strip(err))
		}
	}
	return driver.ClaimInfo{}, driver.ErrGone
}
