package explore

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
)

// A part is the hash of a client's encoding, kept until the client changes or something that the part depends on.
type part struct {
	on   uint64 // the hash of everything that the part depends on beside the client; 0 means that the client changed
	a, b uint64 // the hash of the part
}

// mostClients is how many clients a world may have.
const mostClients = 4

// A Hash stands for a world's encoding.
type Hash uint64

// Hash returns the hash of the world's encoding. Two worlds that behave the same have the same encoding: the clients' parts
// are added, so their order does not matter, and goroutines are encoded in the order of their waiters and holds.
//
// Most events change one client. The parts of the other clients stay the same if the time does, their claims in the store,
// and the ranks of the tickets that they know. As long as this is so, their parts are kept.
func (w *World) Hash() Hash {
	if w.hashed {
		return w.hash
	}
	k := w.enc
	k.w = w
	x := &k.x
	if x.Waiter == nil {
		x.Waiter, x.Hold, x.Claim = k.waiter, k.hold, k.claim
	}
	x.Now, x.Skip = w.now, w.conf.skip
	var ends [mostClients]int
	w.rank(&ends)
	var a, b uint64
	own := 0
	for i := range w.clients {
		p := &w.parts[i]
		if on := w.dependsOn(i, k.own[own:ends[i]]); p.on != on {
			x.Buf = x.Buf[:0]
			w.encodeClient(i)
			p.on = on
			p.a, p.b = mix(x.Buf)
		}
		a, b = a+p.a, b+p.b
		own = ends[i]
	}
	x.Buf = binary.LittleEndian.AppendUint64(x.Buf[:0], a)
	x.Buf = binary.LittleEndian.AppendUint64(x.Buf, b)
	w.encodeShared()
	a, _ = mix(x.Buf)
	w.hash, w.hashed = Hash(a), true
	return w.hash
}

const k1, k2, k3 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93, 0xa0761d6478bd642f

// mix returns two hashes of some bytes, to which it may append.
func mix(buf []byte) (a, b uint64) {
	a, b = k1, k2
	n := uint64(len(buf))
	for len(buf)%8 != 0 {
		buf = append(buf, 0)
	}
	for ; len(buf) > 0; buf = buf[8:] {
		v := binary.LittleEndian.Uint64(buf)
		hi, lo := bits.Mul64(a^v, k2)
		a = hi ^ lo ^ b
		hi, lo = bits.Mul64(b^v, k3)
		b = hi + lo + bits.RotateLeft64(a, 23)
	}
	hi, lo := bits.Mul64(a^n, k3)
	a = hi ^ lo
	hi, lo = bits.Mul64(b^a, k1)
	return a, hi ^ lo
}

// dependsOn returns a hash of everything that a client's part depends on beside the client, which knows these tickets.
func (w *World) dependsOn(i int, tickets []int64) uint64 {
	h := uint64(w.now) ^ k1
	on := func(v uint64) {
		hi, lo := bits.Mul64(h^v, k2)
		h = hi ^ lo ^ k3
	}
	on(uint64(bit(w.faults > 0 || w.mute)))
	for _, t := range tickets {
		on(uint64(w.enc.x.Rank(t)))
	}
	for j := range w.store.Entries {
		if e := &w.store.Entries[j]; w.has(i, e) {
			on(idNumber(e.ID))
			on(uint64(e.Ends))
			on(uint64(e.Weight)<<3 | uint64(bit(e.Notified)|bit(e.Left)<<1|bit(slices.Contains(w.broken, e.Ticket))<<2))
		}
	}
	return h | 1
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// has reports whether a client made a claim in the store.
func (w *World) has(i int, e *driver.Entry) bool { return e.ID[0] == '0'+byte(i) }

// rank collects the tickets that are known anywhere, and where each client's own tickets end.
func (w *World) rank(ends *[mostClients]int) {
	k := w.enc
	own := k.own[:0]
	for i := range w.clients {
		c := &w.clients[i]
		own = c.e.AppendTickets(own)
		for j := range c.reqs {
			own = append(own, c.reqs[j].ticket)
			if c.reqs[j].applied {
				own = append(own, c.reqs[j].reply.ticket)
				if w.conf.Unordered {
					own = append(own, c.reqs[j].reply.blocker)
				}
			}
		}
		for j := range w.store.Entries {
			if e := &w.store.Entries[j]; w.has(i, e) {
				own = append(own, e.Ticket)
			}
		}
		ends[i] = len(own)
	}
	k.own = own
	t := append(k.x.Tickets[:0], 0, w.token/engine.Turns, w.baton.token/engine.Turns)
	t = append(t, own...)
	slices.Sort(t)
	k.x.Tickets = slices.Compact(t)
}
