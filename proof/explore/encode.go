package explore

import (
	"cmp"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A coder is the memory in which a world is encoded.
type coder struct {
	x     engine.Encoder
	c     *client // the client that is being encoded
	w     *World
	own   []int64 // the tickets that clients know, one client after another
	idle  []int64
	order []int // requests, ordered by their claims
}

// encodeShared encodes what belongs to no client.
func (w *World) encodeShared() {
	x := &w.enc.x
	x.Put(int64(w.faults))
	x.Flag(w.shaken)
	if x.Flag(w.mute); w.mute && !w.conf.Silent {
		x.Put(x.Ago(w.muted, 13*patience))
	}
	x.Put(x.Rank(w.token / engine.Turns))
	if len(w.store.Entries) > 0 && w.conf.Readers != nil {
		x.Put(w.store.Capacity)
	}
	x.Flag(w.baton.token != 0)
	if w.baton.token != 0 {
		x.Put(w.baton.weight)
		x.Put(x.Rank(w.baton.token / engine.Turns))
	}
}

// encodeClient encodes a client.
func (w *World) encodeClient(client int) {
	k := w.enc
	k.c = &w.clients[client]
	i, x, c := uint64(client), &k.x, k.c
	ids := c.e.AppendIDs(x.IDs[:0])
	const own = 1<<clientBits - 1
	for j := range w.store.Entries {
		if e := &w.store.Entries[j]; w.has(client, e) {
			ids = append(ids, idNumber(e.ID)&own)
		}
	}
	for j := range c.reqs {
		if id := c.reqs[j].id; id>>clientBits == i {
			ids = append(ids, id&own)
		}
	}
	slices.Sort(ids)
	x.IDs = slices.Compact(ids)

	x.Flag(c.paused)
	if c.paused {
		x.Flag(c.asleep)
		x.Put(x.Ahead(c.rouse))
	}
	x.Flag(c.e.Due() <= w.now)
	c.e.Encode(x)
	for j := range w.store.Entries {
		if e := &w.store.Entries[j]; w.has(client, e) {
			id := idNumber(e.ID)
			x.Put(k.id(id, i))
			x.Put(x.Rank(e.Ticket))
			x.Put(e.Weight)
			x.Put(w.left(c, e, id))
			x.Flag(e.Notified)
			x.Flag(e.Left)
			x.Flag(slices.Contains(w.broken, e.Ticket))
		}
	}
	x.Put(-9)
	k.order = k.order[:0]
	for j := range c.reqs {
		k.order = append(k.order, j)
	}
	slices.SortStableFunc(k.order, func(a, b int) int { return cmp.Compare(c.reqs[a].id, c.reqs[b].id) })
	for _, j := range k.order {
		w.encodeRequest(&c.reqs[j], i)
	}
	x.Put(-9)
	k.idle = k.idle[:0]
	for g := range c.gs {
		if y := &c.gs[g]; y.state == idle || y.state == attaching {
			k.idle = append(k.idle, int64(y.state)<<40|int64(y.left+1)<<32|y.weight)
		}
	}
	slices.Sort(k.idle)
	for _, v := range k.idle {
		x.Put(v)
	}
}

// left returns how long a claim stays in the store. This does not matter if a request that renews or removes the claim will
// be applied before time moves, except for the claim behind it, whose client learns from it when to ask again.
func (w *World) left(c *client, e *driver.Entry, id uint64) int64 {
	left := e.Ends - w.micros()
	if w.faults > 0 || w.mute || e.Left {
		return left
	}
	for j := range c.reqs {
		r := &c.reqs[j]
		if r.id == id && !r.applied && !r.slow && w.sure(r) {
			return min(left, int64((ttl*2/3-grain)/us))
		}
	}
	return left
}

// sure reports whether a request on its way will certainly be applied. Close may cancel a request that asks for something.
func (w *World) sure(r *request) bool {
	switch r.verb {
	case protocol.Leave:
		return true
	case protocol.Renew:
		return !r.apart
	case protocol.Enter:
		return w.conf.Acts&Close == 0
	default:
		return false
	}
}

// id returns the rank of a claim of client i. A claim that came from another client is known by its ticket.
func (k *coder) id(id, i uint64) int64 {
	if id>>clientBits != i {
		return -1
	}
	rank, _ := slices.BinarySearch(k.x.IDs, id&(1<<clientBits-1))
	return int64(rank)
}

func (w *World) encodeRequest(r *request, i uint64) {
	x := &w.enc.x
	x.Put(int64(r.verb))
	x.Put(w.enc.id(r.id, i))
	x.Put(x.Rank(r.ticket))
	flags := int64(0)
	for b, f := range [...]bool{r.try, r.live, r.cut, r.applied, r.slow, r.doubted, r.amend, r.apart} {
		if f {
			flags |= 1 << b
		}
	}
	x.Put(flags)
	x.Put(int64(r.keep))
	if r.live {
		x.Put(x.Ahead(r.limit))
		if r.verb != protocol.Leave {
			x.Put(x.Ago(r.sent, ttl))
		}
	} else if w.conf.Readers != nil {
		x.Put(r.weight)
	}
	if r.applied {
		p := &r.reply
		x.Put(int64(p.outcome))
		x.Put(x.Rank(p.ticket))
		x.Put(int64(p.lease))
		x.Put(int64(p.rest))
		x.Put(int64(min(p.retry, ttl*2/3-grain))) // the place is renewed by then in any case
		x.Flag(p.holds)
		if w.conf.Unordered {
			x.Put(x.Rank(p.blocker))
		}
	}
}

// goroutine encodes a goroutine that waits or holds.
func (k *coder) goroutine(y *goroutine) {
	x := &k.x
	if y == nil {
		x.Put(-1)
		return
	}
	x.Put(int64(y.state))
	x.Flag(y.over)
	x.Flag(y.stood && k.w.conf.Reclaim)
	if y.state == waiting && y.try {
		x.Flag(y.company)
	}
	x.Put(int64(y.left))
	x.Put(int64(y.shares))
	x.Put(int64(y.change))
	if y.state == releasing || y.state == parting {
		x.Put(x.Ago(y.since, patience))
	}
}

func (k *coder) waiter(s engine.Slot) { k.goroutine(k.c.find(waiting, s)) }
func (k *coder) hold(s engine.Slot)   { k.goroutine(k.c.holder(s)) }

func (k *coder) claim(s engine.Slot) {
	x := &k.x
	if int(s) >= len(k.c.claims) {
		x.Put(-2)
		return
	}
	y := &k.c.claims[s]
	x.Flag(y.dead)
	x.Flag(y.weak)
	x.Flag(y.pinned)
	x.Flag(y.again)
	x.Flag(y.before)
	stage := k.c.e.Stage(s)
	if stage.Holds() {
		x.Put(x.Ago(y.begun, k.w.conf.turn()+k.w.conf.Linger))
	}
	if stage.Leased() { // otherwise nobody relies on it
		x.Put(x.Ahead(y.trust))
	}
}
