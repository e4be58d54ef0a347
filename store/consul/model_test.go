package consul

import (
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

// hash is the same for worlds that are equivalent. Indexes count only by their order.
func (m *small) hash() string {
	var order []uint64
	for i := range m.keys {
		order = append(order, m.keys[i].CreateIndex, m.keys[i].ModifyIndex)
	}
	for i := range m.clients {
		p := &m.clients[i]
		if p.q != nil {
			for _, e := range p.q.entries {
				order = append(order, e.CreateIndex, e.ModifyIndex)
			}
			if p.q.lockKey != nil {
				order = append(order, p.q.lockKey.ModifyIndex)
			}
		}
		if p.wait != nil {
			order = append(order, p.wait.index)
		}
	}
	for _, ops := range m.late {
		for i := range ops {
			order = append(order, ops[i].Index)
		}
	}
	slices.Sort(order)
	order = slices.Compact(order)
	b := make([]byte, 0, 256)
	index := func(x uint64) {
		at, _ := slices.BinarySearch(order, x)
		b = append(b, byte(at))
	}
	text := func(s string) { b = append(append(b, s...), 0) }
	var sessions []string // in the order of their first use, since their names do not matter
	session := func(s string) {
		at := slices.Index(sessions, s)
		if at < 0 {
			at = len(sessions)
			sessions = append(sessions, s)
		}
		b = append(b, byte(at))
		if s != "" {
			b = append(b, s[0])
		}
	}
	flag := func(f bool) {
		if f {
			b = append(b, 1)
		} else {
			b = append(b, 2)
		}
	}
	for i := range m.keys {
		p := &m.keys[i]
		text(p.Key[len(walkFolder):])
		session(p.Session)
		index(p.CreateIndex)
		index(p.ModifyIndex)
		b = append(b, byte(p.Flags), byte(len(p.Value)))
		flag(slices.Contains(m.delayed, p.Key))
	}
	b = append(b, byte(m.lost), byte(m.ends), byte(m.breaks), byte(len(m.delayed)))
	flag(m.barred)
	b = append(b, 0xff)
	for _, ops := range m.late {
		for i := range ops {
			b = append(b, ops[i].Verb[0], ops[i].Verb[len(ops[i].Verb)-1], byte(len(ops[i].Key)))
			session(ops[i].Session)
			index(ops[i].Index)
		}
	}
	for i := range m.clients {
		p := &m.clients[i]
		b = append(b, 0xfe, byte(p.phase), byte(p.claim), byte(p.seat.state))
		session(p.seat.session)
		for _, h := range p.heirs {
			session(h)
		}
		session(p.seat.heir)
		b = append(b, byte(p.tries))
		flag(p.seat.c != nil && p.seat.c.Ticket != 0)
		flag(p.again)
		flag(p.told)
		flag(p.unsure)
		flag(p.mended)
		flag(p.seat.exclusive)
		flag(slices.Contains(m.over, p.seat.session))
		if p.was != nil {
			b = append(b, byte(len(p.was.of.ops)))
			flag(p.was.of.out)
			if p.was.bad != nil {
				text(strings.Join(p.was.bad.what, "+"))
				flag(p.was.bad.about[ownKey])
				flag(p.was.bad.about[lockKey])
			}
		}
		if p.wait != nil {
			text(p.wait.key[len(walkFolder):])
			index(p.wait.index)
		}
		if p.q != nil {
			b = binary.AppendUvarint(b, uint64(len(p.q.entries)))
			for _, e := range p.q.entries {
				text(e.id)
				session(e.Session)
				index(e.CreateIndex)
				index(e.ModifyIndex)
				flag(e.Left)
				flag(e.exclusive())
			}
			if k := p.q.lockKey; k != nil {
				session(k.Session)
				index(k.ModifyIndex)
			}
			b = append(b, byte(len(p.q.dead)))
		}
	}
	return string(b)
}
