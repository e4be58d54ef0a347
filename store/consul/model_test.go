package consul

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// The keys of the model's claims.
const (
	walkFolder  = "p/n/"
	walkLockKey = walkFolder + lockKeyName
)

// A small is a world: the keys of one name, and its clients.
type small struct {
	keys    []pair // in the order of their names
	index   uint64
	delayed []string // keys in their lock-delay; never changed in place
	barred  bool     // a session with a lock-delay ran out while its claim held, and the lock-delay lasts
	over    []string // sessions that have ended; never changed in place
	made    int      // the number of sessions made
	late    [][]op   // unanswered transactions, which may still be applied
	lost    int      // how many more answers may be lost
	ends    int      // how many more sessions may run out
	breaks  int      // how many more claims may be removed by hand
	clients []person

	queues map[string]*queue // by the text of keys that were read before; all worlds from one start share them
}

func (m *small) clone() *small {
	n := *m
	n.keys, n.late, n.clients = slices.Clone(m.keys), slices.Clone(m.late), slices.Clone(m.clients)
	return &n
}

func (m *small) find(key string) int {
	return slices.IndexFunc(m.keys, func(p pair) bool { return p.Key == key })
}

func (m *small) holder(key string) string {
	if i := m.find(key); i >= 0 {
		return m.keys[i].Session
	}
	return ""
}

func (m *small) look() *queue {
	b := make([]byte, 0, 128)
	for i := range m.keys {
		p := &m.keys[i]
		for _, part := range [][]byte{[]byte(p.Key), []byte(p.Session), p.Value} {
			b = append(append(b, part...), 0)
		}
		b = binary.AppendUvarint(binary.AppendUvarint(append(b, byte(p.Flags)), p.CreateIndex), p.ModifyIndex)
	}
	q := m.queues[string(b)]
	if q == nil {
		q = parse("n", walkFolder, slices.Clone(m.keys))
		m.queues[string(b)] = q
	}
	return q
}

// lockOnly is the answer to a transaction that reads only the lock's key.
func (q *queue) lockOnly() *queue {
	return &queue{folder: q.folder, lockKey: q.lockKey, foreign: q.foreign}
}

// do applies a transaction, or returns what prevented it.
func (m *small) do(ops []op) (read string, bad *conflict) {
	n := &small{keys: slices.Clone(m.keys), index: m.index + 1, delayed: m.delayed, over: m.over}
	wrote := false
	for i, o := range ops {
		if o.Verb == tree {
			read = o.Key
			continue
		}
		why := n.apply(o)
		if why != "" {
			if bad == nil {
				bad = &conflict{about: map[part]bool{}, indexes: map[int]bool{}}
			}
			bad.about[o.about], bad.indexes[i] = true, true
			bad.what = append(bad.what, why)
		}
		wrote = wrote || o.Verb.writes()
	}
	if bad == nil && wrote {
		m.keys, m.index = n.keys, n.index
	}
	return read, bad
}

// apply applies one operation, or returns what prevents it.
func (m *small) apply(o op) (why string) {
	at := m.find(o.Key)
	there := at >= 0
	var ok bool
	switch o.Verb {
	case missing:
		ok = !there
	case locked:
		ok = there && m.keys[at].Session == o.Session
	case same:
		ok = there && m.keys[at].ModifyIndex == o.Index
	case lock:
		switch {
		case slices.Contains(m.over, o.Session):
			return "invalid session"
		case slices.Contains(m.delayed, o.Key):
			return "lock delay"
		}
		if !there {
			at, _ = slices.BinarySearchFunc(m.keys, o.Key, func(p pair, key string) int { return strings.Compare(p.Key, key) })
			m.keys = slices.Insert(m.keys, at, pair{Key: o.Key, CreateIndex: m.index})
		}
		if p := &m.keys[at]; p.Session == "" || p.Session == o.Session {
			p.Session, p.Value, p.Flags, p.ModifyIndex, ok = o.Session, o.Value, o.Flags, m.index, true
		}
	case unlock:
		if ok = there && m.keys[at].Session == o.Session; ok {
			m.keys[at].Session, m.keys[at].ModifyIndex = "", m.index
		}
	case remove:
		if ok = true; there {
			m.keys = slices.Delete(m.keys, at, at+1)
		}
	}
	if !ok {
		return string(o.Verb)
	}
	return ""
}

// end ends a session, by hand or by its time. A session with a lock-delay leaves its keys there without a session.
func (m *small) end(session string, ranOut bool) {
	m.over = append(slices.Clip(m.over), session)
	m.index++
	for i := len(m.keys) - 1; i >= 0; i-- {
		p := &m.keys[i]
		switch {
		case p.Session != session:
		case session[0] == 'd':
			p.Session, p.ModifyIndex = "", m.index
			if ranOut { // a session that is ended by hand has the delay too, but no claim holds by it
				m.delayed = append(slices.Clip(m.delayed), p.Key)
			}
		default:
			m.keys = slices.Delete(m.keys, i, i+1)
		}
	}
	m.late = slices.DeleteFunc(m.late, func(ops []op) bool { // operations that need the session would fail
		return slices.ContainsFunc(ops, func(o op) bool { return o.Session == session && (o.Verb == locked || o.Verb == lock) })
	})
}

// changed reports whether a target has changed.
func (m *small) changed(t *target) bool {
	if t.recurse {
		return m.index != t.index
	}
	at := m.find(t.key)
	return at < 0 || m.keys[at].ModifyIndex != t.index
}

// hash is the same for worlds that go on in the same way. Indexes count only by their order, and sessions by the order in
// which the text names them.
func (m *small) hash() [sha256.Size]byte {
	h := &hasher{over: m.over, order: []uint64{0}} // no key has index 0, so it equals no other
	m.write(h)                                     // to find the indexes
	slices.Sort(h.order)
	h.order, h.sessions, h.b, h.final = slices.Compact(h.order), h.sessions[:0], h.b[:0], true
	m.write(h)
	return sha256.Sum256(h.b)
}

// A hasher makes the text of a world.
type hasher struct {
	b        []byte
	over     []string
	order    []uint64
	sessions []string // in the order of their first use
	final    bool     // the order is complete
}

func (h *hasher) index(x uint64) {
	if !h.final {
		h.order = append(h.order, x)
		return
	}
	at, _ := slices.BinarySearch(h.order, x)
	h.b = append(h.b, byte(at))
}

// session writes the number of a session, whether it has a lock-delay, and whether it is over.
func (h *hasher) session(s string) {
	at := slices.Index(h.sessions, s)
	if at < 0 {
		at = len(h.sessions)
		h.sessions = append(h.sessions, s)
	}
	h.number(at)
	h.flags(s == "", s != "" && s[0] == 'd', slices.Contains(h.over, s))
}

func (h *hasher) text(list ...string) {
	for _, s := range list {
		h.b = append(append(h.b, s...), 0)
	}
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

func (h *hasher) pair(p *pair) {
	h.text(p.Key, string(p.Value))
	h.session(p.Session)
	h.index(p.CreateIndex)
	h.index(p.ModifyIndex)
	h.b = binary.AppendUvarint(h.b, p.Flags)
}

func (m *small) write(h *hasher) {
	h.index(m.index)
	h.number(m.lost, m.ends, m.breaks, len(m.keys), len(m.delayed), len(m.late))
	h.flags(m.barred)
	for i := range m.keys {
		h.pair(&m.keys[i])
	}
	h.text(m.delayed...)
	for _, ops := range m.late {
		h.number(len(ops))
		for i := range ops {
			o := &ops[i]
			h.text(string(o.Verb), o.Key, string(o.Value))
			h.session(o.Session)
			h.index(o.Index)
			h.b = binary.AppendUvarint(h.b, o.Flags)
		}
	}
	for i := range m.clients {
		m.clients[i].write(h)
	}
}

func (p *person) write(h *hasher) {
	s := &p.seat
	h.number(int(p.phase), p.claim, int(s.state), p.tries, len(p.heirs))
	h.flags(p.again, p.told, p.unsure, p.mended, s.exclusive, s.c != nil && s.c.Ticket != 0, p.was != nil, p.wait != nil, p.q != nil)
	h.session(s.session)
	h.session(s.heir)
	for _, heir := range p.heirs {
		h.session(heir)
	}
	if p.was != nil {
		p.was.write(h)
	}
	if p.wait != nil {
		h.text(p.wait.key)
		h.flags(p.wait.recurse)
		h.index(p.wait.index)
	}
	if p.q != nil {
		p.q.write(h)
	}
}

func (a *answer) write(h *hasher) {
	h.flags(a.of.out, a.of.exclusive != nil, a.of.exclusive != nil && *a.of.exclusive, a.bad != nil)
	if a.bad != nil {
		h.number(len(a.bad.what))
		h.text(a.bad.what...)
		h.flags(a.bad.about[others], a.bad.about[ownKey], a.bad.about[lockKey])
	}
}

func (q *queue) write(h *hasher) {
	h.number(len(q.entries), len(q.dead))
	h.flags(q.foreign, q.lockKey != nil)
	for _, e := range q.entries {
		h.pair(&e.pair)
	}
	for _, p := range q.dead {
		h.pair(p)
	}
	if q.lockKey != nil {
		h.pair(q.lockKey)
	}
}
