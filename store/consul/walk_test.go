package consul

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// The goals only decide. So this test walks every way in which a few clients with these very goals may meet on one name, in
// a model of Consul's keys, sessions and transactions. Answers are lost, and their requests come late or not at all.
// Sessions run out, with a lock-delay or without. Claims are kept, reclaimed, amended and removed by hand. A client of
// Consul's own takes part.

// A person is one client. Its properties are in want, which does not change.
type person struct {
	want   *wish
	phase  stage
	claim  int // which of its claims this is
	seat   seat
	q      *queue
	was    *answer
	wait   *target
	again  bool     // it may ask again without a change
	told   bool     // it knows that it holds, and its lease is not over
	unsure bool     // an answer was lost: its session serves no other claim
	mended bool     // it was amended
	tries  int      // how often other clients were faster
	heirs  []string // the sessions that were made to keep its claim; never changed in place
}

type wish struct {
	weight  int64
	delay   bool
	try     bool
	job     bool // of the owner "job"
	reclaim bool
	keep    bool
	amend   bool // a writer becomes a reader
	claims  int  // how many, one after the other, with the same session if possible
	gone    bool // its claim holds and stays: its client is gone
	theirs  bool // it is a client of Consul's own
	gives   bool // it may give up while it waits
}

type stage byte

const (
	atJoin stage = iota
	atStand
	atWait
	atHold
	atAmend
	atLeave
	atKeep
	atSweep // its session must end
	atTheirs
	atTheirHold
	atEnd
)

// A plan is the clients' behaviour: the real goals, or goals with a mistake.
type plan struct {
	joins, stands, leaves, keeps, amends goal

	drops  func(by stage, o *op) bool // operations that are not sent; nil means none
	reuses bool                       // a session serves the next claim, even after an unknown outcome
}

func ships() *plan {
	return &plan{joins: joins, stands: stands, leaves: leaves, keeps: keeps, amends: amends}
}

// sent returns the operations of a move that a client sends.
func (by *plan) sent(from stage, ops []op) []op {
	if by.drops == nil {
		return ops
	}
	return slices.DeleteFunc(slices.Clone(ops), func(o op) bool { return by.drops(from, &o) })
}

// session makes a session for a client.
func (m *small) session(w *wish) string {
	m.made++
	kind := "s"
	if w.delay {
		kind = "d"
	}
	return fmt.Sprint(kind, m.made)
}

// begin lets a client ask for a new claim.
func (m *small) begin(i int) {
	p := &m.clients[i]
	id := fmt.Sprint("c", i, "-", p.claim)
	c := &driver.Claim{
		Name: "n", ID: id, Client: fmt.Sprint(i), Weight: p.want.weight, Capacity: driver.All, Try: p.want.try, Reclaim: p.want.reclaim,
		Owner: "other", Record: "r",
	}
	if p.want.job {
		c.Owner = "job"
	}
	session := p.seat.session
	if session == "" || p.unsure {
		session = m.session(p.want)
	}
	v := valueOf(c, "p/", time.UnixMilli(0)) // the clock must not make worlds differ
	*p = person{want: p.want, claim: p.claim, phase: atJoin, seat: seat{
		c: c, folder: walkFolder, key: walkFolder + id, session: session, record: []byte("r"), text: v.text(), exclusive: exclusive(c),
	}}
	if c.Reclaim || c.Try && !exclusive(c) {
		p.q = m.look()
	}
}

// next returns the worlds after one step of a client.
func (m *small) next(i int, by *plan) (worlds []*small) {
	p := &m.clients[i]
	if p.want.gives && p.phase == atStand && p.seat.state == claimUnsure {
		n := m.clone()
		n.clients[i].phase, n.clients[i].q, n.clients[i].was = atLeave, nil, nil
		worlds = append(worlds, n)
	}
	var g goal
	switch p.phase {
	case atJoin:
		g = by.joins
	case atStand:
		g = by.stands
	case atLeave:
		g = by.leaves
	case atKeep:
		g = by.keeps
	case atAmend:
		g = by.amends
	default:
		return m.rest(i, by)
	}
	s := p.seat // a goal does not change it
	move := g(&s, p.q, p.was)
	switch {
	case move.end != goesOn:
		n := m.clone()
		n.ended(i, &move, by)
		return append(worlds, n)
	case move.ops == nil:
		n := m.clone()
		n.clients[i].q, n.clients[i].was = m.look(), nil
		return append(worlds, n)
	}
	n := m.clone()
	o := &n.clients[i]
	ops := by.sent(p.phase, move.ops)
	read, bad := n.do(ops)
	o.was = &answer{of: move, bad: bad}
	if bad == nil {
		if o.q = nil; move.exclusive != nil {
			o.seat.exclusive = *move.exclusive
		}
		switch read {
		case walkFolder:
			o.q = n.look()
		case walkLockKey:
			o.q = n.look().lockOnly()
		}
	}
	for j := range n.clients { // the claims of an earlier run end
		if e := &n.clients[j]; p.want.reclaim && j != i && e.seat.c != nil && e.seat.c.Owner == "job" && n.holder(e.seat.key) != e.seat.session {
			e.told = false
		}
	}
	worlds = append(worlds, n)
	if m.lost > 0 {
		worlds = append(worlds, m.lose(i, &move, ops, true), m.lose(i, &move, ops, false))
	}
	return worlds
}

// lose loses an answer: its request was applied, or may still be applied.
func (m *small) lose(i int, move *move, ops []op, applied bool) *small {
	n := m.clone()
	n.lost--
	if !applied {
		n.late = append(n.late, ops)
	} else if _, bad := n.do(ops); bad != nil {
		n.lost = 0 // the same as a request that never arrived: another branch of the walk
	}
	p := &n.clients[i]
	p.seat.state, p.unsure, p.q, p.was = claimUnsure, true, nil, nil
	if move.exclusive != nil {
		p.seat.exclusive = *move.exclusive
	}
	switch p.phase {
	case atJoin:
		p.phase = atStand
	case atKeep:
		p.seat.heir = ""
	}
	return n
}

// rest is next for a client that does not pursue a goal.
func (m *small) rest(i int, by *plan) (worlds []*small) {
	p := &m.clients[i]
	n := m.clone()
	o := &n.clients[i]
	o.q, o.was = nil, nil
	switch p.phase {
	case atWait:
		if p.want.gives {
			g := n.clone()
			g.clients[i].phase = atLeave
			worlds = append(worlds, g)
		}
		if !p.again && !m.changed(p.wait) {
			return worlds
		}
		if o.phase, o.wait = atStand, nil; o.seat.state == claimWaiting {
			o.seat.state = claimCalled
		}
	case atHold:
		switch {
		case p.want.amend && !p.mended:
			o.phase, o.mended = atAmend, true
			c := *o.seat.c
			c.Amend = &driver.Amendment{Weight: 1, Record: "r2"}
			o.seat.c = &c
		case p.want.keep:
			o.phase, o.told, o.q = atKeep, false, m.look()
		default:
			o.phase, o.told = atLeave, false
		}
	case atSweep:
		if o.unsure = !by.reuses; o.unsure {
			n.end(p.seat.session, false)
		}
		n.done(i)
	case atTheirs:
		if _, bad := n.do([]op{{Verb: lock, Key: walkLockKey, Flags: lockFlags, Session: p.seat.session}}); bad != nil {
			return nil
		}
		o.phase, o.told = atTheirHold, true
	case atTheirHold:
		_, _ = n.do([]op{{Verb: unlock, Key: walkLockKey, Session: p.seat.session}})
		o.phase, o.told = atEnd, false
	case atEnd:
		if len(p.heirs) == 0 {
			return nil
		}
		n.end(p.heirs[0], false) // the time to keep the claim is over
		o.heirs = p.heirs[1:]
	default:
		return nil
	}
	return append(worlds, n)
}

// done lets a client begin its next claim, or end.
func (m *small) done(i int) {
	p := &m.clients[i]
	p.phase, p.q, p.was, p.told = atEnd, nil, nil, false
	if p.claim++; p.claim < p.want.claims && len(p.heirs) == 0 {
		m.begin(i)
	}
}

// ended does the work of the driver's calls at the end of a goal.
func (m *small) ended(i int, move *move, by *plan) {
	p := &m.clients[i]
	p.was = nil
	switch move.end {
	case endEntered:
		p.phase = atStand
	case endAgain:
		if move.spoils {
			m.end(p.seat.session, false)
			p.seat.session = m.session(p.want)
		}
		if p.q = m.look(); p.q.find(p.seat.c.ID) != nil {
			panic("a claim stands there by a session that nobody has")
		}
		if p.tries++; p.seat.c.Try && move.delayed || p.tries > 2 {
			m.done(i) // the driver tries more often, which makes no other worlds
		}
	case endHolds:
		p.phase, p.seat.state, p.told = atHold, claimHolding, m.holder(p.seat.key) == p.seat.session
		p.seat.exclusive = p.seat.exclusive && *move.exclusive
		p.q = nil
		p.ticket(move)
	case endWaits:
		p.phase, p.seat.state, p.wait, p.again = atWait, claimWaiting, move.wait, move.wait == nil || move.place.Retry > 0
		p.q = nil
		p.ticket(move)
	case endExpelled:
		p.phase = atLeave
	case endAmended:
		p.phase, p.q = atHold, nil
		p.seat.state, p.seat.exclusive = claimHolding, *move.exclusive
	case endHeirless:
		p.seat.heir = m.session(&wish{})
		p.heirs = append(slices.Clip(p.heirs), p.seat.heir)
	case endUnheld:
		p.phase = atLeave
	case endGone:
		if p.phase == atStand && p.seat.c.Ticket == 0 { // as enterAgain does
			m.end(p.seat.session, false)
			p.seat.session, p.unsure = "", true
			m.begin(i)
			return
		}
		p.unsure = !by.reuses // the claim was lost
		m.away(i)
	case endLeft:
		m.away(i)
	default: // refused or outside
		m.away(i)
	}
}

// away ends a claim. A session that may serve no other claim ends later.
func (m *small) away(i int) {
	p := &m.clients[i]
	if p.q, p.was, p.told = nil, nil, false; p.unsure {
		p.phase = atSweep
		return
	}
	m.done(i)
}

func (p *person) ticket(move *move) {
	c := *p.seat.c
	c.Ticket = move.place.Ticket
	p.seat.c = &c
}

// wrong returns the mistake in a world, or "".
func (m *small) wrong() string {
	held := int64(0)
	for i := range m.clients {
		p := &m.clients[i]
		if slices.Contains(p.heirs, m.holder(p.seat.key)) {
			held += driver.All // it is kept, so a present holder came too early
		}
		if p.want.try && p.phase == atWait {
			return fmt.Sprintf("%d only tries, and waits", i)
		}
		if !p.told {
			continue
		}
		if m.barred {
			return fmt.Sprintf("%d holds in a lock-delay", i)
		}
		switch {
		case p.want.theirs:
			held += driver.All
		case p.seat.exclusive:
			held += driver.All
			if m.holder(walkLockKey) != p.seat.session {
				return fmt.Sprintf("%d holds without the lock's key", i)
			}
		default:
			held++
		}
		if m.holder(p.seat.key) != p.seat.session && !p.want.theirs {
			return fmt.Sprintf("%d holds without a key of its own", i)
		}
	}
	if held > driver.All {
		return "too many hold"
	}
	return ""
}

// stuck returns the mistake in a world in which no client can go on, or "".
func (m *small) stuck() string {
	for i := range m.clients {
		p := &m.clients[i]
		if p.phase != atEnd && !p.want.gone && (p.phase != atTheirs || m.holder(walkLockKey) == "" && len(m.delayed) == 0) {
			return fmt.Sprintf("%d does not go on", i)
		}
	}
	for _, p := range m.keys {
		if p.Session != "" && !strings.HasPrefix(p.Key, walkFolder+"gone") {
			return fmt.Sprintf("the key %s is left", p.Key)
		}
	}
	return ""
}

// events returns the worlds after an event that no client causes.
func (m *small) events() (worlds []*small) {
	for i := range m.late {
		n := m.clone()
		n.late = slices.Delete(n.late, i, i+1)
		_, _ = n.do(m.late[i]) // it may find another world than its client saw
		worlds = append(worlds, n)
	}
	if len(m.delayed) > 0 {
		n := m.clone()
		n.delayed, n.barred = nil, false
		worlds = append(worlds, n)
	}
	for i := range m.clients {
		p := &m.clients[i]
		if p.want.theirs || p.phase == atEnd || m.holder(p.seat.key) != p.seat.session || p.want.gone {
			continue
		}
		if m.ends > 0 {
			n := m.clone()
			n.ends--
			n.end(p.seat.session, true)
			n.barred = p.told && p.want.delay
			n.clients[i].told = false
			worlds = append(worlds, n)
		}
		if m.breaks > 0 {
			n := m.clone()
			n.breaks--
			q := m.look()
			_, _ = n.do(evict(q, []*entry{q.find(p.seat.c.ID)}))
			n.clients[i].told = false
			worlds = append(worlds, n)
		}
	}
	return worlds
}

// walk visits every world that follows from one. It returns their number, and the mistake in one of them.
func (m *small) walk(by *plan) (seen int, wrong string) {
	known, todo := map[[sha256.Size]byte]bool{}, []*small{m}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		key := m.hash()
		if known[key] {
			continue
		}
		if known[key] = true; len(known) > 100000 {
			return len(known), "too many"
		}
		if wrong = m.wrong(); wrong != "" {
			return len(known), wrong
		}
		moves := 0
		for i := range m.clients {
			worlds := m.next(i, by)
			moves += len(worlds)
			todo = append(todo, worlds...)
		}
		events := m.events()
		if moves+len(events) == 0 {
			if wrong = m.stuck(); wrong != "" {
				return len(known), wrong
			}
		}
		todo = append(todo, events...)
	}
	return len(known), ""
}
