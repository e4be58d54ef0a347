package etcd

import (
	"fmt"
	"slices"

	"github.com/stilelock/stile/driver"
)

// The goals only decide. So a test can walk all worlds of a few clients on one name, with the goals that ship, in a model of
// etcd's keys, leases, terms and transactions. These things happen:
//
//   - Answers are lost, and their requests come late or not at all.
//   - Leases run out.
//   - Leaders are replaced, and go on answering keep-alives and ending leases for a while.
//   - Claims are kept, reclaimed, amended, and removed by hand.
//   - A client of etcd's own takes part.
//   - A claim enters by two drivers at once.
//   - A client makes two calls for one claim.
//
// A new goal needs a stage, a field of plan, and its ends in ended. A new field of a world needs a line in write.

// A person is one client. Its want never changes.
type person struct {
	want  *wish
	me    int
	claim int // the number of its present claim
	seat      // of the present call; both calls have the same knowledge of the claim
	attending
	aside  *besides // the other call, or nil
	called bool     // it has made another call

	term    uint64  // the latest term that it knows
	pool    []int64 // leases for the next claims; this and the next two slices are never changed in place
	open    []int64 // leases about which etcd may still apply a request
	heirs   []int64 // leases that were granted to keep its claim
	stays   bool    // it knows that its claim is kept
	out     bool    // another client removed its claim, or it is to leave by another driver
	broken  bool    // its claim was removed by hand
	told    bool    // it knows that it holds, and its time is not over
	delayed int     // end of its lock-delay, which began when its time ran out; it keeps others out

	mended bool // its claim was amended
	tries  int
}

// An attending is the knowledge of a call, except its seat.
type attending struct {
	phase     stage
	v         *view
	was       *answer
	pending   hold // leases that were kept alive, before the next read
	sure      int  // when they were kept alive
	keptAlive bool // its keep-alives are answered, and it reads next
}

// A besides is the own knowledge of the call that waits while the other one goes on. It is never changed in place.
type besides struct {
	attending
	alive, hand hold
	fresh       bool
	by          wants
}

func (p *person) call() *besides {
	return &besides{attending: p.attending, alive: p.alive, hand: p.hand, fresh: p.fresh, by: p.by}
}

// swap makes the other call the present one.
func (p *person) swap() {
	to := p.aside
	p.aside = p.call()
	p.attending, p.alive, p.hand, p.fresh, p.by = to.attending, to.alive, to.hand, to.fresh, to.by
}

type wish struct {
	weight  int64
	delay   bool
	try     bool
	job     bool // of the owner "job"
	reclaim bool
	keep    bool
	amend   bool  // a writer becomes a reader
	renews  bool  // it may renew while it holds
	gives   bool  // it may give up while it waits, or does not know whether it entered
	claims  int   // number of claims, one after the other
	gone    bool  // it has a claim that holds, and does nothing more
	late    bool  // a put of its claim is late in the first world
	theirs  bool  // it is a client of etcd's own
	twin    bool  // its claim is the first client's
	beside  stage // of a second call for its claim while it enters; atJoin means none
}

type stage byte

const (
	atJoin stage = iota
	atStand
	atWait
	atHold
	atRenew
	atAmend
	atStay
	atFind // looks for the claim that it is to remove
	atLeave
	atTheirs
	atTheirWait
	atTheirHold
	atEnd
)

// A plan has the goals and rules that the clients follow, perhaps with a mistake.
type plan struct {
	joins, stands, lives, leaves, stays, amends goal

	drops  func(by stage, m *move) // changes a move before it is sent; nil changes none
	reuses bool                    // a lease serves the next claim, whatever requests about it are open
	terms  bool                    // a keep-alive counts in any term
	blind  bool                    // a key that was read is not read again
}

func ships() *plan {
	return &plan{joins: joins, stands: stands, lives: lives, leaves: leaves, stays: stays, amends: amends}
}

func (by *plan) goal(phase stage) goal {
	return map[stage]goal{
		atJoin: by.joins, atStand: by.stands, atRenew: by.lives, atLeave: by.leaves, atStay: by.stays, atAmend: by.amends,
	}[phase]
}

// begin makes a client begin with a new claim.
func (m *small) begin(i int) {
	p := &m.clients[i]
	id := fmt.Sprint("c", i, "-", p.claim)
	if p.want.twin {
		id = "c0-0"
	}
	c := &driver.Claim{
		Name: "n", ID: id, Client: fmt.Sprint(i), Weight: p.want.weight, Capacity: driver.All,
		Try: p.want.try, Reclaim: p.want.reclaim, Owner: "other",
	}
	if p.want.job {
		c.Owner = "job"
	}
	if p.want.delay {
		c.Delay = 1
	}
	*p = person{
		want: p.want, me: i, claim: p.claim, seat: seat{c: c, folder: walkFolder, most: 64},
		term: p.term, pool: p.pool, open: p.open, delayed: p.delayed, called: p.called,
	}
	m.outfit(p)
}

// outfit does the same as Driver.outfit.
func (m *small) outfit(p *person) {
	home := grant{}
	for len(p.pool) > 0 && home.id == 0 {
		id := p.pool[len(p.pool)-1]
		p.pool = slices.Delete(slices.Clone(p.pool), len(p.pool)-1, len(p.pool))
		if l := m.lease(id); l != nil && l.term == p.term && l.sure > m.now {
			home = grant{id, l.term}
		}
	}
	if home.id == 0 {
		home = m.grant(p, 1)
	}
	p.key, p.has = walkFolder+hexOf(home.id), hold{home, home}
	v := valueOf(p.c)
	v.Since, v.Term = 0, home.term // the clock must not make worlds differ
	p.text, _ = v.encode()
}

// next returns the worlds after one step of a client, by each of its calls.
func (m *small) next(i int, by *plan) (worlds []*small) {
	worlds = m.goOn(i, by)
	p, n := &m.clients[i], m.clone()
	o := &n.clients[i]
	switch {
	case p.aside != nil:
		o.swap()
		for _, n := range n.goOn(i, by) {
			if o := &n.clients[i]; o.aside != nil { // its claim has not ended
				if o.swap(); o.aside.phase == atHold {
					o.aside = nil
				}
			}
			worlds = append(worlds, n)
		}
	case p.want.beside != atJoin && p.phase == atStand && p.known && !p.called:
		o.aside, o.called = &besides{attending: attending{phase: p.want.beside}}, true
		if p.want.beside != atRenew {
			o.told, o.out = false, true
		}
		worlds = append(worlds, n)
	}
	return worlds
}

// goOn returns the worlds after one step of the present call.
func (m *small) goOn(i int, by *plan) (worlds []*small) {
	p := &m.clients[i]
	if p.want.gives && (p.phase == atJoin && slices.Contains(p.open, p.has.life.id) || p.phase == atWait) {
		n := m.clone()
		o := &n.clients[i]
		o.phase, o.v, o.was = atFind, nil, nil
		if o.known {
			o.phase = atLeave
		}
		worlds = append(worlds, n)
	}
	goal := by.goal(p.phase)
	if goal == nil {
		return append(worlds, m.rest(i, by)...)
	}
	s := p.seat // a goal does not change it
	move := goal(&s, p.v, p.was)
	n := m.clone()
	o := &n.clients[i]
	switch {
	case move.end != goesOn:
		n.ended(i, &move, by)
	case move.txn != nil:
		if by.drops != nil {
			sent := *move.txn
			move.txn = &sent
			by.drops(p.phase, &move)
		}
		worlds = append(worlds, m.lose(i, &move)...)
		n.applied(i, &move)
	case move.wants != wantsNone:
		n.provide(o, move.wants)
	case move.keeps && !p.keptAlive:
		return append(worlds, m.keepAlive(i, &move)...)
	default:
		n.look(o, &move, by)
	}
	return append(worlds, n)
}

// provide does the same as Driver.provide.
func (m *small) provide(p *person, what wants) {
	p.was, p.by = nil, what
	switch what {
	case wantsNew:
		p.hand.life = m.grant(p, 1)
		if p.hand.on = p.hand.life; p.has.on.id != p.has.life.id {
			p.hand.on = m.grant(p, 2)
		}
	case wantsLong:
		p.hand = hold{p.has.life, m.grant(p, 2)}
	case wantsShort:
		p.hand = hold{p.has.life, m.grant(p, 1)}
		p.heirs = append(slices.Clip(p.heirs), p.hand.on.id)
	}
}

// keepAlive returns the worlds in which the leases of a claim are kept alive, by the leader or by a replaced one.
func (m *small) keepAlive(i int, move *move) (worlds []*small) {
	p := &m.clients[i]
	life, on := m.lease(p.has.life.id), m.lease(p.has.on.id)
	if life == nil || on == nil {
		n := m.clone()
		n.clients[i].was = &answer{of: *move, leaseless: true}
		return append(worlds, n)
	}
	for _, old := range []bool{false, true} {
		if old && (!m.old || life.was == 0 || on.was == 0) {
			continue
		}
		n := m.clone()
		for _, id := range []int64{life.id, on.id} {
			if l := n.lease(id); old {
				l.was = n.now + l.ttl
			} else {
				l.ends = n.now + l.ttl
			}
		}
		o := &n.clients[i]
		o.keptAlive, o.pending, o.sure = true, p.has, n.now
		worlds = append(worlds, n)
	}
	return worlds
}

// look does the same as Driver.look when that reads.
func (m *small) look(p *person, move *move, by *plan) {
	switch move.reads {
	case readsPlace:
		p.v = m.read(p.key)
	case readsQueue:
		p.v = m.read("")
	case readsKey:
		if by.blind && p.v != nil {
			break
		}
		var e *entry
		if at := keyAt(m.keys, p.key); at >= 0 {
			e = &m.keys[at]
		}
		p.v = p.v.with(p.key, e)
		p.v.term = m.term
	}
	if p.keptAlive {
		p.alive, p.pending, p.keptAlive = p.pending, hold{}, false
	}
	p.was = nil
	m.meet(p, by)
}

// meet does the same as Driver.meet.
func (m *small) meet(p *person, by *plan) {
	p.term = max(p.term, p.v.term)
	i := p.v.q.Find(p.c.ID)
	if i < 0 || !is(p.c, &p.v.q[i]) || p.known && (p.v.q[i].created != p.created || p.v.q[i].key != p.key) {
		return
	}
	e := &p.v.q[i]
	if p.key != e.key { // our key is gone, and its lease serves other claims
		m.giveBack(p, by, p.has.life.id)
		p.key, p.known, p.created, p.modified = e.key, false, 0, 0
	}
	if p.fresh = false; p.known && e.modified < p.modified {
		return
	}
	p.known, p.created, p.modified = true, e.created, e.modified
	life, _ := e.life()
	p.has = hold{m.granted(p, life, e.Term), m.granted(p, e.lease, e.Term)}
	if by != nil && by.terms {
		p.alive.life.term, p.alive.on.term, p.has.life.term, p.has.on.term = p.v.term, p.v.term, p.v.term, p.v.term
	}
	if p.alive.same(p.has) && p.has.in(p.v.term) {
		for _, id := range []int64{p.has.life.id, p.has.on.id} {
			if l := m.lease(id); l != nil {
				l.sure = max(l.sure, p.sure+l.ttl)
			}
		}
	}
}

// granted returns a lease as a client knows it.
func (m *small) granted(p *person, id int64, term uint64) grant {
	for _, had := range []grant{p.has.life, p.has.on, p.hand.life, p.hand.on} {
		if had.id == id {
			return had
		}
	}
	switch l := m.lease(id); {
	case l == nil || l.by != p.me:
		return grant{id, term}
	case slices.Contains(m.ending, id):
		return grant{id: id}
	default:
		return grant{id, l.term}
	}
}

// applied applies a transaction, and answers it.
func (m *small) applied(i int, move *move) {
	p := &m.clients[i]
	met, leaseless, last := m.apply(i, move.txn)
	p.was = &answer{of: *move, met: met, leaseless: leaseless}
	if leaseless {
		p.hand, p.by = hold{}, wantsNone
		return
	}
	p.term = max(p.term, m.term)
	was := p.v
	if met {
		p.v = nil
	}
	if last != nil && last.verb == opList {
		p.v = m.read("")
	} else if last != nil && last.verb == opGet {
		var e *entry
		if at := keyAt(m.keys, last.key); at >= 0 {
			e = &m.keys[at]
		}
		p.v = was.with(last.key, e)
		p.v.term = m.term
	}
	if !met {
		return
	}
	switch move.changes {
	case entersIt:
		if p.v == nil { // it read nothing
			own := m.keys[keyAt(m.keys, p.key)]
			p.v = &view{q: queue{own}, seen: m.rev, term: m.term}
		}
		if at := p.v.q.Find(p.c.ID); at >= 0 && p.v.q[at].key == p.key {
			m.meet(p, nil)
			p.fresh = true
		}
	case hangsIt:
		e := *move.next
		e.modified = m.rev
		if p.v = was.with(e.key, &e); !e.Left {
			for _, id := range []int64{p.has.life.id, p.has.on.id} {
				if id != p.hand.life.id && id != p.hand.on.id {
					m.revoke(p, id)
				}
			}
			p.has, p.modified = p.hand, e.modified
		}
		p.hand, p.by, p.fresh = hold{}, wantsNone, true
	case rewritesIt:
		p.modified = m.rev
	}
}

// apply applies a transaction of a client. It notes the clients whose claims the transaction removed: claims of an earlier
// run, or the same claim by another driver.
func (m *small) apply(i int, t *txn) (met, leaseless bool, last *op) {
	before := slices.Clone(m.keys)
	met, leaseless, last = m.do(t)
	by := &m.clients[i]
	for j := range m.clients {
		p := &m.clients[j]
		if j == i || p.c == nil || !by.want.reclaim && by.c.ID != p.c.ID {
			continue
		}
		if at := keyAt(before, p.key); at >= 0 && !before[at].Left && keyAt(m.keys, p.key) < 0 {
			p.told, p.out = false, true
		}
	}
	return met, leaseless, last
}

// lose returns the worlds in which an answer is lost. Its request was applied, or may be applied later.
func (m *small) lose(i int, move *move) (worlds []*small) {
	if m.lost == 0 {
		return nil
	}
	for _, applied := range []bool{true, false} {
		n := m.clone()
		n.lost--
		if !applied {
			n.late = append(n.late, request{i, *move.txn})
		} else if met, _, _ := n.apply(i, move.txn); !met {
			continue // the transaction changed nothing, as if it never came: the walk visits that world anyway
		}
		p := &n.clients[i]
		if home, ok := leaseIn(p.key); ok && move.changes != evicts {
			p.open = append(slices.Clip(p.open), home)
		}
		if move.changes == hangsIt {
			p.open = append(slices.Clip(p.open), p.hand.on.id, p.hand.life.id)
		}
		p.hand, p.by, p.v, p.was, p.alive, p.fresh = hold{}, wantsNone, nil, nil, hold{}, false
		if p.phase == atRenew {
			p.phase = atHold
		}
		worlds = append(worlds, n)
	}
	return worlds
}

// rest returns the worlds after one step of a call that pursues no goal.
func (m *small) rest(i int, by *plan) (worlds []*small) {
	p := &m.clients[i]
	n := m.clone()
	o := &n.clients[i]
	switch p.phase {
	case atWait:
		if !m.changed(p) {
			return nil
		}
		o.phase, o.v, o.was, o.alive, o.fresh = atStand, nil, nil, hold{}, false
	case atHold:
		o.v, o.was = nil, nil
		if p.want.renews && p.told && m.ticks > 0 {
			r := n.clone()
			r.clients[i].phase, r.clients[i].alive, r.clients[i].fresh = atRenew, hold{}, false
			worlds = append(worlds, r)
		}
		switch {
		case p.want.amend && !p.mended:
			c := *o.c
			c.Amend = &driver.Amendment{Weight: 1, Record: "r"}
			o.phase, o.mended, o.c = atAmend, true, &c
		case p.want.keep:
			o.phase, o.told = atStay, false
			n.parts(i)
		default:
			n.part(i)
			n.parts(i)
		}
	case atFind:
		q := m.read("").q
		at := q.Find(p.c.ID)
		if at < 0 || !is(p.c, &q[at]) {
			n.away(i, claimGone, by)
			break
		}
		o.v = m.read("")
		n.meet(o, nil)
		o.phase, o.v = atLeave, nil
	case atTheirs:
		home := n.grant(o, 1)
		o.key, o.has, o.phase = walkFolder+hexOf(home.id), hold{home, home}, atTheirWait
		n.lease(home.id).ends = 1 << 10 // it keeps its lease alive
		n.rev++
		n.keys = append(n.keys, entry{key: o.key, created: n.rev, modified: n.rev, lease: home.id, foreign: true})
	case atTheirWait:
		at := keyAt(m.keys, p.key)
		switch {
		case at < 0:
			o.phase = atEnd
		case at > 0:
			return nil
		default:
			o.phase, o.told = atTheirHold, true
		}
	case atTheirHold:
		n.rev++
		n.keys = slices.DeleteFunc(n.keys, func(e entry) bool { return e.key == p.key })
		o.phase, o.told = atEnd, false
	default:
		return nil
	}
	return append(worlds, n)
}

// parts ends a claim for the other driver that has it too: a claim must not leave by one driver and enter by another.
func (m *small) parts(i int) {
	for j := range m.clients {
		if o := &m.clients[j]; j != i && o.c != nil && o.c.ID == m.clients[i].c.ID {
			o.told, o.out = false, true
		}
	}
}

// part makes a client leave. If only its lock-delay is left, the claim is lost.
func (m *small) part(i int) {
	p := &m.clients[i]
	if p.has.on.id != p.has.life.id && m.lease(p.has.life.id) == nil {
		m.away(i, claimLost, nil)
		return
	}
	p.phase, p.told, p.delayed = atLeave, false, 0
}

// changed reports whether the queue ahead of a claim has changed since it was read.
func (m *small) changed(p *person) bool {
	at := p.v.q.Find(p.c.ID)
	now := keyAt(m.keys, p.key)
	if now < 0 || now < at {
		return true
	}
	return slices.ContainsFunc(m.keys[:now], func(e entry) bool {
		i := keyAt(p.v.q, e.key)
		return i < 0 || p.v.q[i].Weight != e.Weight
	})
}

// ended does the same as the calls of the driver at the end of a goal.
func (m *small) ended(i int, move *move, by *plan) {
	p := &m.clients[i]
	p.was, p.hand, p.by = nil, hold{}, wantsNone // leases in hand are given back
	switch move.end {
	case endEntered:
		p.phase = atStand
	case endStands:
		p.phase, p.alive = atStand, hold{}
		m.meet(p, by)
	case endSpoilt:
		m.outfit(p)
		p.fresh = false
	case endHolds:
		l := m.lease(p.has.life.id)
		p.phase, p.told, p.v = atHold, l != nil && l.sure > m.now && !p.out, nil
		p.ticket(move)
	case endWaits:
		p.phase = atWait
		p.ticket(move)
	case endLives, endAmended:
		p.phase, p.v = atHold, nil
	case endUnheld:
		p.phase, p.v = atLeave, nil
	case endLeft:
		if p.phase != atStay {
			m.away(i, claimGone, by)
			return
		}
		m.away(i, claimKept, by)
		m.clients[i].stays = true
	case endGone, endOther:
		again := p.phase == atStand && p.c.Ticket == 0 && p.tries < 1 && !p.out
		tries := p.tries + 1
		if m.away(i, claimGone, by); again {
			m.begin(i)
			m.clients[i].tries = tries
		}
	case endKept:
		m.away(i, claimKept, by)
	case endLost:
		m.away(i, claimLost, by)
	default: // refused, outside or expelled
		m.away(i, claimGone, by)
	}
}

func (p *person) ticket(move *move) {
	c := *p.c
	c.Ticket = move.place.Ticket
	p.c = &c
}

// giveBack puts leases into the pool, or revokes them.
func (m *small) giveBack(p *person, by *plan, ids ...int64) {
	for _, id := range ids {
		l := m.lease(id)
		switch {
		case l == nil || l.by != p.me || slices.Contains(p.pool, id) || slices.Contains(m.ending, id):
		case l.ttl == 1 && l.term == p.term && (!slices.Contains(p.open, id) || by != nil && by.reuses):
			p.pool = append(slices.Clip(p.pool), id)
		default:
			m.revoke(p, id)
		}
	}
}

// revoke makes etcd end a client's own lease at some later time.
func (m *small) revoke(p *person, id int64) {
	if l := m.lease(id); l != nil && l.by == p.me && !slices.Contains(m.ending, id) {
		m.ending = append(m.ending, id)
	}
}

// away ends a claim in a final state.
func (m *small) away(i int, how state, by *plan) {
	p := &m.clients[i]
	home, _ := leaseIn(p.key)
	ids := slices.Compact([]int64{home, p.has.life.id, p.has.on.id})
	switch how {
	case claimKept:
		for _, id := range ids {
			m.revoke(p, id)
		}
	case claimGone:
		m.giveBack(p, by, ids...)
	}
	p.v, p.was, p.told, p.known, p.phase = nil, nil, false, false, atEnd
	p.alive, p.pending, p.hand = hold{}, hold{}, hold{}
	p.aside = nil // nothing is sent about a claim that has ended
	if p.claim++; p.claim < max(1, p.want.claims) && len(p.heirs) == 0 {
		m.begin(i)
	}
}

// wrong returns the mistake in a world, or "".
func (m *small) wrong() string {
	held, counted := int64(0), map[string]bool{}
	for i := range m.keys {
		if e := &m.keys[i]; e.Left {
			held += e.Weight
		}
	}
	for i := range m.clients {
		p := &m.clients[i]
		if at := keyAt(m.keys, p.key); at > 0 && p.want.reclaim && len(queue(m.keys[:at]).Earlier(p.c)) > 0 {
			return fmt.Sprintf("%d waits for an earlier run", i)
		}
		if slices.ContainsFunc(m.keys, func(e entry) bool { return slices.Contains(p.pool, e.lease) }) {
			return fmt.Sprintf("a key hangs on a lease that is to serve the next claim of %d", i)
		}
		if p.stays && !p.broken {
			heir := p.heirs[len(p.heirs)-1]
			if m.lease(heir) != nil && !m.heir(heir) {
				return fmt.Sprintf("what %d keeps is gone", i)
			}
		}
		switch {
		case p.want.try && p.phase == atWait:
			return fmt.Sprintf("%d only tries, and waits", i)
		case !p.told:
			continue
		case p.want.theirs:
			held += driver.All
			continue
		}
		at := keyAt(m.keys, p.key)
		if at < 0 {
			return fmt.Sprintf("%d holds without a key", i)
		}
		switch life := p.has.life.id; {
		case m.lease(life) == nil || slices.Contains(m.ending, life):
			return fmt.Sprintf("%d holds by a lease that is no more", i)
		case p.want.delay && !p.has.apart():
			return fmt.Sprintf("%d holds, and its key ends with its lease", i)
		}
		for j := range m.clients {
			if j != i && m.now < m.clients[j].delayed {
				return fmt.Sprintf("%d holds in the lock-delay of %d", i, j)
			}
		}
		if !counted[m.keys[at].ID] {
			held += m.keys[at].Weight
			counted[m.keys[at].ID] = true
		}
	}
	if held > driver.All {
		return "too many hold"
	}
	return ""
}

// stuck returns the mistake in a world in which no client has a next step, or "".
func (m *small) stuck() string {
	for i := range m.clients {
		if p := &m.clients[i]; p.phase != atEnd && !p.want.gone {
			return fmt.Sprintf("%d does not go on", i)
		}
	}
	if len(m.keys) > 0 {
		return "a key is left: " + m.keys[0].key
	}
	return ""
}

// tick lets one step of time pass. A client whose time is over no longer holds.
func (m *small) tick() {
	m.now++
	for i := range m.clients {
		p := &m.clients[i]
		if !p.told || p.want.theirs {
			continue
		}
		if l := m.lease(p.has.life.id); l == nil || l.sure <= m.now {
			p.told = false
			if p.want.delay {
				p.delayed = m.now + 1
			}
		}
	}
}

// events returns the worlds after one event that no client causes.
func (m *small) events() (worlds []*small) {
	add := func(change func(n *small)) {
		n := m.clone()
		change(n)
		worlds = append(worlds, n)
	}
	for i := range m.late {
		add(func(n *small) {
			n.late = slices.Delete(n.late, i, i+1)
			_, _, _ = n.apply(m.late[i].by, &m.late[i].txn) // its conditions may no longer be met
		})
	}
	for _, id := range m.ending {
		add(func(n *small) { n.end(id) })
	}
	for i := range m.leases {
		l := &m.leases[i]
		if m.now >= l.ends || m.old && l.was > 0 && m.now >= l.was || m.heir(l.id) {
			add(func(n *small) { n.end(l.id) })
		}
	}
	if m.ticks > 0 {
		add(func(n *small) { n.ticks--; n.tick() })
	}
	if m.leaders > 0 {
		add(func(n *small) {
			n.leaders--
			n.term++
			n.old = true
			for i := range n.leases {
				n.leases[i].was = n.leases[i].ends
			}
		})
	}
	for i := range m.clients {
		p := &m.clients[i]
		if at := keyAt(m.keys, p.key); m.breaks > 0 && at >= 0 && !p.want.gone && p.phase != atEnd {
			add(func(n *small) {
				n.breaks--
				n.rev++
				n.keys = slices.Delete(n.keys, at, at+1)
				for j := range n.clients {
					if o := &n.clients[j]; o.key == p.key {
						o.told, o.out, o.broken = false, true, true
					}
				}
			})
		}
	}
	return worlds
}

// heir reports whether a lease keeps a claim that has left.
func (m *small) heir(id int64) bool {
	return slices.ContainsFunc(m.keys, func(e entry) bool { return e.lease == id && e.Left })
}

// walk visits every world that can follow from one. It returns the number of worlds, and the first mistake, or "".
func (m *small) walk(by *plan) (seen int, wrong string) {
	known, todo := map[string]bool{}, []*small{m}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		key := m.hash()
		if known[key] {
			continue
		}
		if known[key] = true; len(known) > 200000 {
			return len(known), "too many"
		}
		if wrong = m.wrong(); wrong != "" {
			return len(known), wrong + m.story()
		}
		var worlds []*small
		for i := range m.clients {
			for _, n := range m.next(i, by) {
				n.from, n.did = m, i
				worlds = append(worlds, n)
			}
		}
		for _, n := range m.events() {
			n.from, n.did = m, -1
			worlds = append(worlds, n)
		}
		if len(worlds) == 0 {
			if wrong = m.stuck(); wrong == "" {
				continue
			}
			if len(m.leases) == 0 || m.now > 6 {
				return len(known), wrong + m.story()
			}
			n := m.clone() // the remaining leases run out
			n.tick()
			n.from, n.did = m, -1
			worlds = append(worlds, n)
		}
		todo = append(todo, worlds...)
	}
	return len(known), ""
}

// story returns the steps that led to a world, one a line.
func (m *small) story() string {
	text := ""
	for ; m != nil; m = m.from {
		line := fmt.Sprintf("\n\tby %d: time %d, term %d, late %d, ending %v, keys",
			m.did, m.now, m.term, len(m.late), m.ending)
		for i := range m.keys {
			e := &m.keys[i]
			line += fmt.Sprintf(" %s(%s on %x, %d/%d, left %v)", e.key, e.ID, e.lease, e.created, e.modified, e.Left)
		}
		for i := range m.clients {
			p := &m.clients[i]
			line += fmt.Sprintf(" | %d: stage %d, key %q, told %v, known %v", i, p.phase, p.key, p.told, p.known)
		}
		text = line + text
	}
	return text
}
