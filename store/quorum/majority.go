package quorum

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// settled reports whether a majority granted the claim, and all of that majority with one ticket, or whether a majority
// cannot be had since others stand in the way. When nodes gave different tickets or fail, the rest is waited for: one
// ticket may stand on a majority already, and what failed nodes granted is known then and can be taken back.
func (d *Driver) settled(claim *driver.Claim, votes []vote) bool {
	c := d.count(votes)
	if !claim.Reclaim { // which, coming late to a node, would take out the claim of a later run of the same owner
		if c.granted >= d.need && (!d.ranked || claim.Ticket != 0) {
			return true
		}
		if _, agreed := d.common(votes); agreed {
			return true
		}
	}
	return d.refused(votes)
}

// common returns the ticket that a majority gave, if there is one.
func (d *Driver) common(votes []vote) (ticket int64, agreed bool) {
	for i := range votes {
		same := 0
		for j := range votes {
			if votes[i].grants() && votes[j].grants() && votes[i].place.Ticket == votes[j].place.Ticket {
				same++
			}
		}
		if same >= d.need {
			return votes[i].place.Ticket, true
		}
	}
	return 0, false
}

// doubtful reports whether a claim may hold by another client, and too few votes tell which ticket most nodes know as its own.
func (d *Driver) doubtful(c *driver.Claim, votes []vote, least int64) bool {
	_, agreed := d.common(votes)
	return !agreed && d.mayHold(c, votes, least)
}

// mayHold reports whether a claim may have come to hold by another client, as far as the votes tell. It must not be taken out.
func (d *Driver) mayHold(c *driver.Claim, votes []vote, least int64) bool {
	return !d.refused(votes) && slices.ContainsFunc(votes, func(v vote) bool { return d.early(c, v, least) })
}

// early reports whether a node had a claim before it was asked for this least ticket, and it is not known here that the claim
// holds. Of another client whose idea of the nodes' clocks is ahead, a claim that it entered less than that ago is taken for
// a new one.
func (d *Driver) early(c *driver.Claim, v vote, least int64) bool {
	if !d.ranked || c.Ticket != 0 || !v.grants() || v.place.Ticket >= least {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held[c.ID] == nil
}

// refused reports whether so many nodes do not have a claim that it holds nowhere.
func (d *Driver) refused(votes []vote) bool {
	c := d.count(votes)
	return c.refused+c.gone+c.foreign > len(d.nodes)-d.need
}

// ticket returns the ticket of a claim which a majority granted: the ticket that a majority gave, whatever the rest
// gave too late. If there is none, it is the highest: a node that gave it may have given the one before to another
// claim.
func (d *Driver) ticket(c *driver.Claim, votes []vote) int64 {
	switch {
	case c.Ticket != 0:
		return c.Ticket
	case !d.ranked:
		return number(c.ID)
	}
	d.mu.Lock()
	h := d.held[c.ID]
	d.mu.Unlock()
	if t, agreed := d.common(votes); agreed {
		return t
	}
	var most int64
	for i := range votes {
		v := &votes[i]
		if !v.grants() {
			continue
		}
		if h != nil && v.place.Ticket == h.claim.Ticket {
			return v.place.Ticket // it has stood there since it was won; another node gave it a higher one too late
		}
		most = max(most, v.place.Ticket)
	}
	return most
}

// number makes a ticket of an id, for nodes whose tickets are unrelated: it distinguishes claims.
func number(id string) int64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return waitingTicket + 1 + int64(h.Sum64()%(1<<52))
}

// lasting returns for how long a majority of the nodes confirmed its lease.
func (d *Driver) lasting(leases []time.Duration) time.Duration {
	slices.Sort(leases)
	return leases[len(leases)-d.need]
}

func (d *Driver) departed(votes []vote) bool {
	left, gone := d.departures(votes)
	return left >= d.need || gone > len(d.nodes)-d.need
}

// departures counts the nodes that let a claim go, and those that did not have it.
func (d *Driver) departures(votes []vote) (left, gone int) {
	for i := range votes {
		switch v := &votes[i]; {
		case v.gone():
			gone++
		case v.came && v.err == nil:
			left++
		}
	}
	return left, gone
}

// still answers for a claim that has held, or may have, and was not found on a majority. It is not taken out: it may hold.
func (d *Driver) still(votes []vote, c count, err error) (driver.Place, error) {
	switch {
	case err != nil:
		return driver.Place{}, err
	case c.gone+c.foreign+c.refused > len(d.nodes)-d.need:
		return driver.Place{}, driver.ErrGone
	}
	return driver.Place{}, d.short(votes, c)
}

// short is the error when too few nodes answered. Where so many deny the request itself, such as for want of memory or of
// a right, that a majority cannot be had until somebody does something about it, the nodes can be reached all the same.
func (d *Driver) short(votes []vote, c count) error {
	if c.denied > len(d.nodes)-d.need {
		i := slices.IndexFunc(votes, func(v vote) bool { return v.denied() })
		return fmt.Errorf("%d of %d nodes refuse, and a majority is %d: %w",
			c.denied, len(d.nodes), d.need, d.nodes[i].says(strip(votes[i].err)))
	}
	answered := c.granted + c.refused + c.gone
	for i, v := range votes {
		if v.came && v.err != nil && !v.gone() {
			return driver.Unreachable(fmt.Errorf("%d of %d nodes take part, and a majority is %d: %w", answered, len(d.nodes), d.need, d.nodes[i].says(strip(v.err))))
		}
	}
	return driver.Unreachable(fmt.Errorf("%d of %d nodes take part, and a majority is %d", answered, len(d.nodes), d.need))
}

// blocker returns the claim that stands in the way on a majority of the nodes, nil if none does.
func (d *Driver) blocker(votes []vote) *driver.ClaimInfo {
	for _, v := range votes {
		if v.came && v.err == nil && !v.place.Holds && d.standing(votes, v.place.Blocker) >= d.need {
			return &v.place.Blocker
		}
	}
	return nil
}

// waiting is the place of a claim that others are in the way of.
func (d *Driver) waiting(c *driver.Claim, votes []vote, n count) driver.Place {
	p := driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1}
	if c.Try {
		p.Ticket, p.TTL = 0, 0
	} else if n.granted > 0 {
		d.mu.Lock()
		d.missedLocked(c.Name)
		d.mu.Unlock()
	}
	var free []time.Duration // when each node may be, as far as they tell
	most := 0
	for _, v := range votes {
		switch {
		case !v.came || v.err != nil:
		case v.place.Holds:
			free = append(free, 0)
		default:
			free = append(free, v.place.Retry)
			// Of two that stand on as many nodes, the older one has left most likely, and is about to leave the rest.
			same := d.standing(votes, v.place.Blocker)
			// Of two records of one, the later one is shown.
			b := &v.place.Blocker
			if same > most || same == most && (d.newer(b, &p.Blocker) || d.same(*b, p.Blocker) && later(b.Record, p.Blocker.Record)) {
				p.Blocker, most = v.place.Blocker, same
			}
		}
	}
	if !d.ranked {
		p.Blocker.Ticket = 0 // it has another on each node
	}
	p.Blocker = d.shown(p.Blocker)
	slices.Sort(free)
	if len(free) >= d.need {
		p.Retry = free[d.need-1]
	}
	return p
}

// standing counts the nodes where a claim stands in the way.
func (d *Driver) standing(votes []vote, b driver.ClaimInfo) (n int) {
	for _, v := range votes {
		if v.came && v.err == nil && !v.place.Holds && d.same(v.place.Blocker, b) {
			n++
		}
	}
	return n
}

// newer reports whether a claim came later than another: by its ticket, or by its age where each node gives tickets by its own clock.
func (d *Driver) newer(a, b *driver.ClaimInfo) bool {
	if d.ranked {
		return a.Ticket > b.Ticket
	}
	return a.Since < b.Since
}

// same reports whether two nodes show one claim, as far as they tell. One that was changed has the ticket that a majority
// confirmed, and may have different records.
func (d *Driver) same(a, b driver.ClaimInfo) bool {
	if !d.ranked {
		return a.Record == b.Record
	}
	return a.Ticket == b.Ticket && (a.Record == b.Record || changed(a) || changed(b))
}

// shown is a claim as observers see it.
func (d *Driver) shown(c driver.ClaimInfo) driver.ClaimInfo {
	if d.ranked {
		c.Record, _ = CutVersion(c.Record)
	}
	return c
}

// changed reports whether a claim got another record, as one node shows it.
func changed(c driver.ClaimInfo) bool {
	_, version := CutVersion(c.Record)
	return version > 0
}

// agreed returns the claim that a majority shows, with the latest of its records.
func (o *observed) agreed(shown []driver.ClaimInfo) (c driver.ClaimInfo, ok bool) {
	for _, a := range shown {
		latest, votes := a, 0
		for _, b := range shown {
			if o.same(a, b) && a.Left == b.Left {
				votes++
				if later(b.Record, latest.Record) {
					latest = b
				}
			}
		}
		if votes >= o.need {
			return o.shown(latest), true
		}
	}
	return driver.ClaimInfo{}, false
}

// strip hides the outcome that one node's error has, since the whole has another outcome.
func strip(err error) error { return errors.New(err.Error()) }
