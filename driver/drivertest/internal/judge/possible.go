package judge

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/stilelock/stile/driver"
)

// A possibility is one queue that a name may have, with the steps that the calls on their way have done in it.
type possibility struct {
	queue driver.Queue
	steps [4]uint64 // the step of each call on its way, in two bits by its slot
}

// The steps of a call. An Enter has two: a driver may let the claim in first and look up its place afterwards; or it decides
// by a read, and makes its change if nobody has changed the queue meanwhile. Time passes between the two, so leases that
// counted in the decision may run out.
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

// with returns a copy in which a call has come to a step. The copies share their entries until one of them changes.
func (p *possibility) with(slot int, step uint64) *possibility {
	q := &possibility{queue: p.queue, steps: p.steps}
	q.steps[slot/32] = q.steps[slot/32]&^(3<<(slot%32*2)) | step<<(slot%32*2)
	return q
}

// changing returns such a copy that has entries of its own, with room for one more. Decisions that were not carried out yet
// must be made again.
func (p *possibility) changing(slot int, step uint64) *possibility {
	q := p.aging(slot, step)
	for i, n := range q.steps {
		decided := n & (n >> 1) & lowBits
		q.steps[i] = n &^ (decided | decided<<1)
	}
	return q
}

// lowBits masks the lower bit of each step.
const lowBits = 0x5555555555555555

// aging is changing for a lease that runs out: earlier decisions stand, since nobody has changed the queue.
func (p *possibility) aging(slot int, step uint64) *possibility {
	q := p.with(slot, step)
	q.queue.Entries = append(make([]driver.Entry, 0, len(p.queue.Entries)+1), p.queue.Entries...)
	return q
}

// key is the same for possibilities that differ only in which calls of unknown outcome were done, and in the next ticket.
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

// covers reports whether everything that can follow from another possibility of the same key can follow from this one too: a
// call of unknown outcome that is not done yet may be done later, or never.
func (p *possibility) covers(other *possibility, unknown *[4]uint64) bool {
	for i := range p.steps {
		if p.steps[i]&unknown[i]&^other.steps[i] != 0 {
			return false
		}
	}
	return p.queue.Last <= other.queue.Last
}

// A seenSet has the possibilities seen so far, by their keys. It leaves out a possibility that another one covers.
type seenSet map[string][]*possibility

// add adds a possibility, unless one in the set covers it, and reports whether it did.
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
