package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// What the nodes show of others' claims.

// blocker returns the claim that stands in the way on a majority of the nodes, nil if none does.
func (m majority) blocker(votes []vote) *driver.ClaimInfo {
	for _, v := range votes {
		if v.refuses() && m.standing(votes, v.place.Blocker) >= m.need {
			return &v.place.Blocker
		}
	}
	return nil
}

// waiting is the place of a claim that others are in the way of.
func (m majority) waiting(c *driver.Claim, votes []vote) driver.Place {
	p := driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1}
	if c.Try {
		p.Ticket, p.TTL = 0, 0
	}
	var free []time.Duration // when each node may be, as far as they tell
	most := 0
	for _, v := range votes {
		switch {
		case v.grants():
			free = append(free, 0)
		case v.refuses():
			free = append(free, v.place.Retry)
			// Of two that stand on as many nodes, the older one has left most likely, and is about to leave the rest.
			same := m.standing(votes, v.place.Blocker)
			// Of two records of one, the later one is shown.
			b := &v.place.Blocker
			if same > most || same == most && (m.newer(b, &p.Blocker) || m.same(*b, p.Blocker) && later(b.Record, p.Blocker.Record)) {
				p.Blocker, most = v.place.Blocker, same
			}
		}
	}
	if !m.ranked {
		p.Blocker.Ticket = 0 // it has another on each node
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

// newer reports whether a claim came later than another: by its ticket, or by its age where each node gives tickets by its own clock.
func (m majority) newer(a, b *driver.ClaimInfo) bool {
	if m.ranked {
		return a.Ticket > b.Ticket
	}
	return a.Since < b.Since
}

// same reports whether two nodes show one claim, as far as they tell. One that was changed has the ticket that a majority
// confirmed, and may have different records.
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

// shown is a claim as observers see it.
func (m majority) shown(c driver.ClaimInfo) driver.ClaimInfo {
	if m.ranked {
		c.Record, _ = CutVersion(c.Record)
	}
	return c
}

// agreed returns the claim that a majority shows, with the latest of its records.
func (m majority) agreed(shown []driver.ClaimInfo) (c driver.ClaimInfo, ok bool) {
	for _, a := range shown {
		latest, votes := a, 0
		for _, b := range shown {
			if m.same(a, b) && a.Left == b.Left {
				votes++
				if later(b.Record, latest.Record) {
					latest = b
				}
			}
		}
		if votes >= m.need {
			return m.shown(latest), true
		}
	}
	return driver.ClaimInfo{}, false
}

// broken is the outcome of removing a claim from all nodes, or of asking for it there. It is there if a majority has it, and
// not if none has. What fewer have is removed, and the outcome is unknown: a claim that is just entering may have been told so
// by one node already, lose that node's vote here, be told so by others, and take itself for one that a majority has. To be
// asked for, a claim needs a majority of nodes that say so: one of them is in the majority by which it is renewed.
func (m majority) broken(ask bool, removed []driver.ClaimInfo, errs []error) (driver.ClaimInfo, error) {
	gone := 0
	for _, err := range errs {
		if errors.Is(err, driver.ErrGone) {
			gone++
		}
	}
	switch {
	case len(removed) >= m.need:
		latest := removed[0]
		for _, c := range removed {
			if later(c.Record, latest.Record) {
				latest = c
			}
		}
		return m.shown(latest), nil
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
