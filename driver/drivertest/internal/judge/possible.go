package judge

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// A possibility is one queue that a name may have, and how far the calls that are on their way have come in it.
type possibility struct {
	queue driver.Queue
	steps [4]uint64 // what was done of each call that is on its way, in two bits by its slot
}

// The steps of a call. An Enter has two: a driver may let the claim in first and look afterwards where it stands; or it
// decides on what it has read, and its change is made if nobody has changed the queue meanwhile. Time goes on between the
// two, so leases may run out that counted when it was decided.
//
//	none ──let in──► entered ──looked up──► done
//	 │ ▲ └───────────────at once────────────▲
//	 │ └─────another changed the queue────┐ │
//	 └──────────decided──────────────► decided
const (
	stepNone    = iota
	stepEntered // the claim is in its queue; the place was not looked up
	stepDone
	stepDecided // the place is known, and the claim is not in its queue yet
)

const slots = 128 // calls that may be on their way at once

func (p *possibility) step(slot int) uint64 { return p.steps[slot/32] >> (slot % 32 * 2) & 3 }

// with returns a copy that has come to a step of a call. The copies share their entries until one of them changes.
func (p *possibility) with(slot int, step uint64) *possibility {
	q := &possibility{queue: p.queue, steps: p.steps}
	q.steps[slot/32] = q.steps[slot/32]&^(3<<(slot%32*2)) | step<<(slot%32*2)
	return q
}

// changing returns such a copy that has entries of its own, with room for one more. Earlier decisions are to be made
// again.
func (p *possibility) changing(slot int, step uint64) *possibility {
	q := p.aging(slot, step)
	for i, n := range q.steps {
		decided := n & (n >> 1) & lowBits
		q.steps[i] = n &^ (decided | decided<<1)
	}
	return q
}

// lowBits has the lower bit of each step.
const lowBits = 0x5555555555555555

// aging is changing for a lease that runs out: nobody has changed the queue for that.
func (p *possibility) aging(slot int, step uint64) *possibility {
	q := p.with(slot, step)
	q.queue.Entries = append(make([]driver.Entry, 0, len(p.queue.Entries)+1), p.queue.Entries...)
	return q
}

// key is the same for possibilities that differ only in the calls of unknown outcome that have come to pass, and in what
// the next ticket may be.
func (p *possibility) key(unknown *[4]uint64) string {
	b := make([]byte, 0, 256)
	for i, n := range p.steps {
		b = binary.LittleEndian.AppendUint64(b, n&^unknown[i])
	}
	for i := range p.queue.Entries {
		e := &p.queue.Entries[i]
		b = binary.LittleEndian.AppendUint64(append(b, e.ID...), uint64(e.Ticket))
		if e.Left {
			b = append(b, '.')
		}
	}
	return string(b)
}

// covers reports that all that can follow from another possibility of the same key can follow from this one: calls of
// unknown outcome that have not come to pass may do so yet, or never.
func (p *possibility) covers(other *possibility, unknown *[4]uint64) bool {
	for i := range p.steps {
		if p.steps[i]&unknown[i]&^other.steps[i] != 0 {
			return false
		}
	}
	return p.queue.Last <= other.queue.Last
}

// A seenSet is the possibilities that were seen, by their keys, without those that another covers.
type seenSet map[string][]*possibility

// add reports that no possibility in the set covers this one, which it then is a part of.
func (s seenSet) add(p *possibility, unknown *[4]uint64) bool {
	key := p.key(unknown)
	for _, other := range s[key] {
		if other.covers(p, unknown) {
			return false
		}
	}
	s[key] = append(slices.DeleteFunc(s[key], func(other *possibility) bool { return p.covers(other, unknown) }), p)
	return true
}

func (s seenSet) all() []*possibility {
	var all []*possibility
	for _, some := range s {
		all = append(all, some...)
	}
	return all
}

func (p *possibility) String() string {
	if len(p.queue.Entries) == 0 {
		return "empty"
	}
	var all []string
	for i := range p.queue.Entries {
		e := &p.queue.Entries[i]
		text := fmt.Sprintf("%s with ticket %d and weight %d", e.Record, e.Ticket, e.Weight)
		if i < p.queue.Holding() {
			text += " that holds"
		}
		if e.Left {
			text += " and is kept"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
