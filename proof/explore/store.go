package explore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
)

const us = time.Microsecond

var errFault = errors.New("a fault")

// ids are the ids of claims, by client and number, made in advance.
var ids = func() (all [4][512]string) {
	for c := range all {
		for n := range all[c] {
			all[c][n] = fmt.Sprintf("%d.%d", c, n)
		}
	}
	return all
}()

const clientBits = 40 // an id has the client's number above these bits, and the claim's below

func idName(id uint64) string {
	c, n := id>>clientBits, id&(1<<clientBits-1)
	if int(c) < len(ids) && int(n) < len(ids[c]) {
		return ids[c][n]
	}
	return fmt.Sprintf("%d.%d", c, n)
}

func idNumber(name string) uint64 {
	c, n := uint64(0), uint64(0)
	for _, b := range []byte(name) {
		if b == '.' {
			c, n = n, 0
		} else {
			n = n*10 + uint64(b-'0')
		}
	}
	return c<<clientBits | n
}

func (w *World) micros() int64 { return int64(w.now / us) }

func (w *World) claim(r *request) driver.Claim {
	t := &w.terms[0]
	return driver.Claim{
		Name: "n", ID: idName(r.id), Client: ids[r.id>>clientBits][0], Weight: r.weight, Capacity: t.Capacity, TTL: t.TTL,
		Wait: t.Wait(), Ticket: r.ticket, Try: r.try, Owner: t.Owner, Reclaim: t.Reclaim,
	}
}

// apply applies a request to the store, and keeps the reply.
func (w *World) apply(r *request) {
	cl := w.claim(r)
	var err error
	var p driver.Place
	switch r.verb {
	case protocol.Enter:
		had := slices.Clone(w.store.Entries)
		p, err = w.store.Enter(w.micros(), 0, &cl)
		w.reclaimed(r, had)
	case protocol.Await:
		p, err = w.store.Look(w.micros(), &cl)
	case protocol.Renew:
		if r.amend {
			cl.Amend = &driver.Amendment{Weight: 1}
		}
		p.TTL, err = w.store.Renew(w.micros(), &cl)
	case protocol.Leave:
		err = w.store.Leave(w.micros(), &driver.Release{Claim: &cl, Keep: r.keep})
	}
	r.reply = reply{holds: p.Holds, ticket: p.Ticket, lease: p.TTL, retry: p.Retry, blocker: p.Blocker.Ticket}
	if w.conf.Tells {
		r.reply.rest = p.Blocker.Remaining
	}
	switch {
	case errors.Is(err, driver.ErrGone) && w.conf.Says && slices.Contains(w.broken, r.ticket):
		r.reply.outcome = protocol.Broken
	case errors.Is(err, driver.ErrGone):
		r.reply.outcome = protocol.Absent
	case err != nil:
		r.reply.outcome = protocol.Rejected
	}
	r.applied = true
	if r.verb != protocol.Await {
		w.store.Wake(w.micros())
	}
}

// reclaimed notes which claims of other runs an Enter removed, and whether it should not have removed them.
func (w *World) reclaimed(r *request, had []driver.Entry) {
	if !w.conf.Reclaim {
		return
	}
	for i := range had {
		id := idNumber(had[i].ID)
		if w.entry(id) >= 0 || id>>clientBits == r.id>>clientBits || had[i].Ends <= w.micros() {
			continue
		}
		w.broken, w.shaken = append(w.broken, had[i].Ticket), true
		for g := range w.clients[r.id>>clientBits].gs {
			if x := &w.clients[r.id>>clientBits].gs[g]; x.state == waiting && x.stood {
				w.robbed = fmt.Errorf("a claim that entered again removed that of another run, with ticket %d", had[i].Ticket)
			}
		}
	}
}

// remove removes a claim from the store that its client may hold.
func (w *World) remove(id uint64) {
	if e := w.entry(id); e >= 0 {
		w.broken = append(w.broken, w.store.Entries[e].Ticket)
		w.store.Entries = slices.Delete(w.store.Entries, e, e+1)
		w.store.Wake(w.micros())
	}
}

// look returns what an Await sees.
func (w *World) look(r *request) (holds, gone bool) {
	e := w.entry(r.id)
	if e < 0 || w.micros() >= w.store.Entries[e].Ends || w.store.Entries[e].Left {
		return false, true
	}
	return e < w.holds(), false
}

// entry returns the index of a claim in the store, or -1.
func (w *World) entry(id uint64) int {
	name := idName(id)
	for i := range w.store.Entries {
		if w.store.Entries[i].ID == name {
			return i
		}
	}
	return -1
}

// holds returns how many claims at the head hold the lock.
func (w *World) holds() int {
	left := w.store.Capacity
	for i := range w.store.Entries {
		if left -= w.store.Entries[i].Weight; left < 0 {
			return i
		}
	}
	return len(w.store.Entries)
}
