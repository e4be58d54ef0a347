package etcd

import (
	"encoding/binary"
	"slices"
)

// walkFolder is the prefix of the model's keys.
const walkFolder = "n/"

// A small is a world: a state of the keys of one name, the leases and the clients. Time goes in steps, and most leases last
// one step.
type small struct {
	keys    []entry // by create revision
	rev     int64
	leases  []modelLease
	made    int64 // the id of the latest lease
	term    uint64
	now     int
	old     bool      // a leader that was replaced goes on ending leases
	late    []request // whose answers were lost, and that etcd may apply yet
	ending  []int64   // leases whose revocation was asked for, and that end at some later time
	clients []person

	// How often each of these may still happen:
	lost    int // an answer is lost
	breaks  int // a claim is removed by hand
	ticks   int // a step of time passes
	leaders int // a leader is replaced

	from *small // the world before
	did  int    // the client that made the step from there, or -1

	values map[string]value // decoded texts; shared by all worlds of one walk
}

// A request is a transaction of a client.
type request struct {
	by  int
	txn txn
}

// A modelLease is a lease that etcd has.
type modelLease struct {
	id   int64
	by   int
	term uint64 // its term, by its client
	ttl  int
	ends int // its end, by the leader
	was  int // its end, by the leader that was replaced; 0 if that leader does not know it
	sure int // its earliest end, by its client
}

func (m *small) clone() *small {
	n := *m
	n.keys, n.leases, n.clients = slices.Clone(m.keys), slices.Clone(m.leases), slices.Clone(m.clients)
	n.late, n.ending = slices.Clone(m.late), slices.Clone(m.ending)
	return &n
}

func (m *small) lease(id int64) *modelLease {
	for i := range m.leases {
		if m.leases[i].id == id {
			return &m.leases[i]
		}
	}
	return nil
}

// grant makes a lease.
func (m *small) grant(p *person, ttl int) grant {
	m.made++
	ends := m.now + ttl
	m.leases = append(m.leases, modelLease{id: m.made, by: p.me, term: p.term, ttl: ttl, ends: ends, sure: ends})
	return grant{m.made, p.term}
}

func (m *small) decoded(text string) value {
	v, ok := m.values[text]
	if !ok {
		v, _ = decode([]byte(text))
		m.values[text] = v
	}
	return v
}

// end ends a lease, and removes the keys that are attached to it.
func (m *small) end(id int64) {
	m.leases = slices.DeleteFunc(m.leases, func(l modelLease) bool { return l.id == id })
	m.ending = slices.DeleteFunc(m.ending, func(l int64) bool { return l == id })
	m.rev++
	m.keys = slices.DeleteFunc(m.keys, func(e entry) bool { return e.lease == id })
	m.late = slices.DeleteFunc(m.late, func(r request) bool { // a request that needs the lease would fail
		return slices.ContainsFunc(r.txn.then, func(o op) bool { return o.verb == opPut && o.lease == id })
	})
}

// do applies a transaction. If a lease that it needs is not there, do changes nothing.
func (m *small) do(t *txn) (met, leaseless bool, last *op) {
	met = !slices.ContainsFunc(t.conditions, func(c condition) bool { return !m.meets(&c) })
	ops := t.answers(met)
	for i := range ops {
		if ops[i].verb == opPut && m.lease(ops[i].lease) == nil {
			return false, true, nil
		}
	}
	rev := m.rev + 1
	for i := range ops {
		o := &ops[i]
		at := keyAt(m.keys, o.key)
		switch o.verb {
		case opPut:
			e := entry{value: m.decoded(o.text), key: o.key, created: rev, modified: rev, lease: o.lease}
			if m.rev = rev; at < 0 {
				m.keys = append(m.keys, e)
			} else {
				e.created = m.keys[at].created
				m.keys[at] = e
			}
		case opRemove:
			if m.rev = rev; at >= 0 {
				m.keys = slices.Delete(m.keys, at, at+1)
			}
		}
		last = o
	}
	return met, false, last
}

func (m *small) meets(c *condition) bool {
	at := keyAt(m.keys, c.key)
	switch c.is {
	case isUnchanged:
		return at >= 0 && m.keys[at].modified == c.revision
	case isMissing:
		return at < 0
	default:
		return !slices.ContainsFunc(m.keys, func(e entry) bool { return e.created > c.revision })
	}
}

// read returns the view of all keys, or, if key is not empty, of the keys up to this one.
func (m *small) read(key string) *view {
	q := slices.Clone(m.keys)
	if at := keyAt(m.keys, key); key != "" && at >= 0 {
		q = q[:at+1]
	}
	return &view{q: q, seen: m.rev, term: m.term}
}

// hash returns the same text for worlds that differ only in numbers: revisions count by their order, and leases by the order
// in which the text names them.
func (m *small) hash() string {
	h := &hasher{order: []int64{0}} // no key has revision 0, so it equals no other
	m.write(h)                      // to find the revisions
	slices.Sort(h.order)
	h.order, h.known, h.b = slices.Compact(h.order), h.known[:0], h.b[:0]
	h.final = true
	m.write(h)
	return string(h.b)
}

type hasher struct {
	b     []byte
	order []int64
	known []int64
	final bool
}

func (h *hasher) revision(x int64) {
	if !h.final {
		h.order = append(h.order, x)
		return
	}
	at, _ := slices.BinarySearch(h.order, x)
	h.b = append(h.b, byte(at))
}

func (h *hasher) lease(id int64) {
	at := slices.Index(h.known, id)
	if at < 0 {
		at = len(h.known)
		h.known = append(h.known, id)
	}
	h.b = append(h.b, byte(at))
}

func (h *hasher) key(key string) {
	id, _ := leaseIn(key)
	h.lease(id)
}

func (h *hasher) number(list ...int) {
	for _, n := range list {
		h.b = binary.AppendVarint(h.b, int64(n))
	}
}

func (h *hasher) flags(list ...bool) {
	for _, f := range list {
		if f {
			h.b = append(h.b, 1)
		} else {
			h.b = append(h.b, 0)
		}
	}
}

func (h *hasher) hold(x hold) {
	h.lease(x.life.id)
	h.lease(x.on.id)
	h.number(int(x.life.term), int(x.on.term)) //nolint:gosec // a few terms
}

func (h *hasher) entry(e *entry) {
	h.key(e.key)
	h.lease(e.lease)
	life, _ := e.life()
	h.lease(life)
	h.revision(e.created)
	h.revision(e.modified)
	h.b = append(append(h.b, e.ID...), 0)
	h.number(int(min(e.Weight, 2)), int(e.Term)) //nolint:gosec // a few terms
	h.flags(e.Left, e.foreign)
}

func (h *hasher) txn(m *small, t *txn) {
	for i := range t.conditions {
		c := &t.conditions[i]
		h.number(int(c.is))
		h.key(c.key)
		h.revision(c.revision)
	}
	for i := range t.then {
		o := &t.then[i]
		h.number(int(o.verb))
		h.key(o.key)
		h.lease(o.lease)
		if o.verb == opPut {
			v := m.decoded(o.text)
			h.entry(&entry{value: v, key: o.key})
		}
	}
	h.b = append(h.b, 0xfd)
}

func (m *small) write(h *hasher) {
	h.revision(m.rev)
	h.number(int(m.term), m.now, m.lost, m.breaks, m.ticks, m.leaders) //nolint:gosec // a few terms
	h.flags(m.old)
	for i := range m.keys {
		h.entry(&m.keys[i])
	}
	h.b = append(h.b, 0xfe)
	for i := range m.late {
		h.number(m.late[i].by)
		h.txn(m, &m.late[i].txn)
	}
	h.b = append(h.b, 0xfe)
	for i := range m.clients {
		m.clients[i].write(h)
	}
	h.b = append(h.b, 0xfe)
	for _, l := range m.ending {
		h.lease(l)
	}
	// The leases come in the order in which the text has named them, so that it does not matter when each was granted.
	rest := slices.Clone(m.leases)
	slices.SortStableFunc(rest, func(a, b modelLease) int {
		return slices.Index(h.known, a.id) - slices.Index(h.known, b.id)
	})
	for i := range rest {
		l := &rest[i]
		h.lease(l.id)
		h.number(l.by, int(l.term), l.ttl, l.ends, l.was, l.sure) //nolint:gosec // a few terms
	}
}

func (p *person) write(h *hasher) {
	s := &p.seat
	h.b = append(h.b, 0xff)
	h.number(p.claim, p.tries, int(p.term), p.delayed) //nolint:gosec // a few terms
	h.flags(p.told, p.out, p.broken, p.stays, p.mended, p.called, p.known)
	if s.c != nil {
		h.revision(s.c.Ticket)
	}
	h.key(p.key)
	h.revision(p.created)
	h.revision(p.modified)
	h.hold(p.has)
	for _, list := range [][]int64{p.pool, p.open, p.heirs} {
		for _, l := range list {
			h.lease(l)
		}
		h.b = append(h.b, 0xfc)
	}
	p.call().write(h)
	if p.aside != nil {
		h.b = append(h.b, 0xfb)
		p.aside.write(h)
	}
}

func (c *besides) write(h *hasher) {
	h.number(int(c.phase), c.sure, int(c.by))
	h.flags(c.fresh, c.keptAlive)
	h.hold(c.alive)
	h.hold(c.pending)
	h.hold(c.hand)
	if w := c.was; w != nil {
		h.number(int(w.of.changes), int(w.of.after))
		h.flags(w.met, w.leaseless, w.of.txn != nil, w.of.why != nil)
	}
	if v := c.v; v != nil {
		h.revision(v.seen)
		h.number(int(v.term)) //nolint:gosec // a few terms
		for i := range v.q {
			h.entry(&v.q[i])
		}
	}
}
