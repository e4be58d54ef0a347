package quorum

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A majority decides. It knows the nodes' names, and how many of them are enough. It asks nobody and keeps nothing: votes go
// in, with this client's knowledge of the claim, and a decision about the claim comes out.
type majority struct {
	names  []string // of the nodes, for messages
	need   int      // how many nodes are a majority
	ranked bool     // all nodes are members, which agree on tickets
}

// majorityOf returns the majority of some nodes, as if all were members.
func majorityOf(nodes []Node) majority {
	m := majority{need: len(nodes)/2 + 1, ranked: true}
	for _, n := range nodes {
		m.names = append(m.names, n.Name)
	}
	return m
}

// prevents reports whether n nodes that do not have a claim leave it no majority.
func (m majority) prevents(n int) bool { return n > len(m.names)-m.need }

// says returns a node's error with its name.
func (m majority) says(i int, err error) error { return fmt.Errorf("node %s: %w", m.names[i], err) }

// first returns the first of some errors, by node.
func (m majority) first(errs []error) error {
	for i, err := range errs {
		if err != nil {
			return m.says(i, err)
		}
	}
	return errors.New("no answer in time")
}

// granted reports whether a majority granted a claim.
func (m majority) granted(votes []vote) bool { return sum(votes).granted >= m.need }

// taken reports whether other claims have so many nodes that there is no majority left.
func (m majority) taken(votes []vote) bool { return m.prevents(sum(votes).refused) }

// settled reports whether the votes decide: a majority granted the claim with one ticket, or there can be no majority since
// other claims stand in the way. If nodes gave different tickets or failed, they do not decide yet: a majority may already
// have one ticket, and a claim that a failing node granted can be taken back once that is known.
func (m majority) settled(claim *driver.Claim, votes []vote) bool {
	if !claim.Reclaim { // a late claim that reclaims would take out the claim of a later run of the same owner
		if m.granted(votes) && (!m.ranked || claim.Ticket != 0) {
			return true
		}
		if _, agreed := m.common(votes); agreed {
			return true
		}
	}
	return m.cannotHold(votes)
}

// common returns the ticket that a majority gave, if there is one.
func (m majority) common(votes []vote) (ticket int64, agreed bool) {
	for i := range votes {
		if same, _ := byTicket(votes, votes[i].place.Ticket); votes[i].grants() && same >= m.need {
			return votes[i].place.Ticket, true
		}
	}
	return 0, false
}

// byTicket counts the nodes that granted a claim with this ticket, and lists the nodes that granted it with another one.
func byTicket(votes []vote, ticket int64) (agreed int, others []int) {
	for i := range votes {
		switch v := &votes[i]; {
		case !v.grants():
		case v.place.Ticket == ticket:
			agreed++
		default:
			others = append(others, i)
		}
	}
	return agreed, others
}

// Below, held is the ticket with which this client knows that the claim holds, or 0, and least is the ticket that the nodes
// were asked for.

// doubtful reports whether a claim may hold by another client while no ticket has a majority of the votes.
func (m majority) doubtful(c *driver.Claim, votes []vote, least, held int64) bool {
	_, agreed := m.common(votes)
	return !agreed && m.mayHold(c, votes, least, held)
}

// mayHold reports whether a claim may hold by another client, as far as the votes show. Then it must not be taken out.
func (m majority) mayHold(c *driver.Claim, votes []vote, least, held int64) bool {
	return !m.cannotHold(votes) && slices.ContainsFunc(votes, func(v vote) bool { return m.early(c, v, least, held) })
}

// early reports whether a node had a claim before this client asked for the ticket least, unless this client knows that the
// claim holds. If another client's estimate of the nodes' clocks is ahead, a claim that it entered just before counts as
// new.
func (m majority) early(c *driver.Claim, v vote, least, held int64) bool {
	return m.ranked && c.Ticket == 0 && v.grants() && v.place.Ticket < least && held == 0
}

// goes reports whether a claim without a majority is taken out of a node, by the vote that the node has given so far. Unless
// it cannot hold, it may hold by another client, and stays on a node that had it before it was asked.
func (m majority) goes(c *driver.Claim, v vote, least, held int64, cannotHold bool) bool {
	if v.came && !v.unknown() && !v.place.Holds {
		return false // there is nothing to take out
	}
	return cannotHold || !m.early(c, v, least, held)
}

// cannotHold reports whether so many nodes do not have a claim that it cannot hold.
func (m majority) cannotHold(votes []vote) bool {
	n := sum(votes)
	return m.prevents(n.refused + n.gone + n.foreign)
}

// ticket returns the ticket of a claim that a majority granted: the ticket that a majority gave, whatever the rest gave too
// late. If there is none, it is the highest ticket: the node that gave it may have given a lower one to another claim.
func (m majority) ticket(c *driver.Claim, votes []vote, held int64) int64 {
	switch {
	case c.Ticket != 0:
		return c.Ticket
	case !m.ranked:
		return number(c.ID)
	}
	if t, agreed := m.common(votes); agreed {
		return t
	}
	var most int64
	for i := range votes {
		v := &votes[i]
		if !v.grants() {
			continue
		}
		if held != 0 && v.place.Ticket == held {
			return held // the claim has stood there since it was won; another node gave a higher ticket too late
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

// lasting returns the lease that a majority of the nodes confirmed.
func (m majority) lasting(leases []time.Duration) time.Duration {
	slices.Sort(leases)
	return leases[len(leases)-m.need]
}

// departed reports whether the votes settle that a claim has left, or was not there.
func (m majority) departed(votes []vote) bool {
	left, gone := departures(votes)
	return left >= m.need || m.prevents(gone)
}

// parting returns the error of a Leave, or nil.
func (m majority) parting(votes []vote) error {
	left, gone := departures(votes)
	switch {
	case left >= m.need:
		return nil
	case m.prevents(gone):
		return driver.ErrGone
	}
	return m.short(votes)
}

// still returns the error for a claim that has held, or may have, and that no majority shows. Such a claim may hold, and so
// it is not taken out.
func (m majority) still(votes []vote, cause error) error {
	switch {
	case cause != nil:
		return cause
	case m.cannotHold(votes):
		return driver.ErrGone
	}
	return m.short(votes)
}

// missed returns the place or the error of a claim without a majority. cause is why the attempt ended early, or nil. The
// attempt is clean if nothing of the claim is left on the nodes.
func (m majority) missed(c *driver.Claim, votes []vote, cause error, clean bool) (driver.Place, error) {
	n := sum(votes)
	switch {
	case cause != nil && clean: // nothing of it is left, and nobody has refused it
		return driver.Place{}, driver.Unsent(cause)
	case cause != nil:
		return driver.Place{}, cause
	case m.prevents(n.gone):
		return driver.Place{}, driver.ErrGone
	case m.prevents(n.foreign):
		i := slices.IndexFunc(votes, func(v vote) bool { return errors.Is(v.err, driver.ErrForeign) })
		return driver.Place{}, m.says(i, votes[i].err)
	case n.granted+n.refused+n.foreign+n.left < m.need:
		err := m.short(votes)
		if clean && slices.ContainsFunc(votes, asked) {
			err = driver.Refused(err)
		} else if clean {
			err = driver.Unsent(err)
		}
		return driver.Place{}, err
	}
	return m.waiting(c, votes), nil
}

// short returns the error if too few nodes answered. Some nodes may deny the request itself, for want of memory or of a
// permission. If so many do that there is no majority until an operator acts, the store still counts as reachable.
func (m majority) short(votes []vote) error {
	n := sum(votes)
	if m.prevents(n.denied) {
		i := slices.IndexFunc(votes, func(v vote) bool { return v.denied() })
		err := m.says(i, strip(votes[i].err))
		return fmt.Errorf("%d of %d nodes refuse, and a majority is %d: %w", n.denied, len(m.names), m.need, err)
	}
	answered := n.granted + n.refused + n.gone
	for i, v := range votes {
		if v.came && v.err != nil && !v.gone() {
			return driver.Unreachable(fmt.Errorf("%d of %d nodes take part, and a majority is %d: %w",
				answered, len(m.names), m.need, m.says(i, strip(v.err))))
		}
	}
	return driver.Unreachable(fmt.Errorf("%d of %d nodes take part, and a majority is %d", answered, len(m.names), m.need))
}

// disagreed returns the error of an attempt whose ticket no majority confirmed. It lists the nodes that were asked to
// confirm the ticket with unknown outcome.
func (m majority) disagreed(asked []int, confirmed []vote) (unsure []int, err error) {
	errs := make([]error, len(confirmed))
	for _, i := range asked {
		v := &confirmed[i]
		if !v.came || v.unknown() {
			unsure = append(unsure, i)
		}
		if v.err != nil {
			errs[i] = strip(v.err)
		}
	}
	return unsure, driver.Unreachable(fmt.Errorf("the nodes did not agree on a ticket: %w", m.first(errs)))
}

// takenUp returns nil if a claim that another process entered stands on a majority of the nodes, so that this process can
// take it up.
func (m majority) takenUp(votes []vote, stands int) error {
	n := sum(votes)
	switch {
	case m.prevents(n.gone + n.foreign):
		return driver.ErrGone
	case stands < m.need:
		return m.short(votes)
	}
	return nil
}
