package claims

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/agenda"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A name has an engine, and the claims and holds in its slots. The shard's mu guards it.
type name struct {
	shard  *shard
	text   string // empty once forgotten
	engine engine.Engine

	slots []slot
	due   agenda.Item
}

// A slot has the claim and the turn with the same slot number in the engine. The two are independent.
type slot struct {
	claim *claim
	turn  *Hold // or a waiter
}

// Name returns the name's key in a table.
func (n *name) Name() string { return n.text }

// Hash returns the name's hash in a table. There may be many names, so they do not store it.
func (n *name) Hash() uint64 { return n.shard.k.place(n.text).hash }

// Due returns the name's item on an agenda.
func (n *name) Due() *agenda.Item { return &n.due }

// A claim is one acquisition from the view of its holders. It is new for each id. There are many claims, so the driver's
// claim is put together for each request.
type claim struct {
	n        *name
	name, id string
	terms    atomic.Pointer[protocol.Terms] // in the store, as far as this process knows
	out      *call                          // of the request under way
	deadline atomic.Int64                   // until then it is trusted; an End reaches its holds before that
	slot     engine.Slot
	asked    int32       // how often others had asked for it at the last renewal
	lighter  atomic.Bool // its holder has asked to be a reader
	jeopardy atomic.Bool // the last renewal failed
	fenced   atomic.Bool // its tickets are fencing tokens: set at the grant, by the store's promise then
}

// describe copies the claim's terms to a driver's claim, except the fields that change between requests.
func (c *claim) describe(to *driver.Claim) {
	t := c.terms.Load()
	to.Name, to.ID, to.Client = c.name, c.id, c.n.shard.k.id
	to.Weight, to.Capacity = t.Weight, t.Capacity
	to.TTL, to.Wait, to.Delay = t.TTL, t.Wait(), t.Delay
	to.Owner, to.Reclaim, to.Record = t.Owner, t.Reclaim, t.Record
}

// name returns the name with a text, new if there is none.
func (p *place) name(text string) *name {
	s := p.shard
	n := s.names.Get(text, p.hash)
	if n != nil {
		return n
	}
	if last := len(s.spare) - 1; last >= 0 {
		n = s.spare[last]
		s.spare = s.spare[:last]
	} else {
		n = &name{shard: s, engine: engine.New(&s.common)}
	}
	n.text = text
	s.names.Add(n, p.hash)
	return n
}

// at returns the slot of an engine's slot, and makes room if it is new.
func (n *name) at(i engine.Slot) *slot {
	for int(i) >= len(n.slots) {
		n.slots = append(n.slots, slot{})
	}
	return &n.slots[i]
}

// enterEvent prepares the engine for an event at a time.
func (n *name) enterEvent(now engine.Time) engine.Time {
	n.shard.common.Slept = n.shard.k.clock.asleep()
	return now
}

// A todo is the work after an event, to do when the shard's mutex is free.
type todo struct {
	k       *Keeper
	now     engine.Time // of the event
	of      *Hold       // of the goroutine that does the work and waits for the hold's answer; nil without one
	told    bool        // the answer has come
	send    send        // the first request, which may run in the goroutine that caused it
	more    []send
	extends []send // renewals, to send in batches
	ended   []ended

	// Waiting goroutines are woken when the shard's mu is free: that takes longer than all else under it.
	wake  *Hold // the first, since usually there is one at most
	wakes []*Hold
}

// An ended is a share that is over, with the reason.
type ended struct {
	tell *whenOver
	err  error
}

// A send is a request of the engine.
type send struct {
	c      *claim
	asks   *driver.Claim // the driver's claim
	call   *call         // its context; nil for a renewal in a batch
	verb   protocol.Verb
	number uint64
	limit  time.Duration
	keep   time.Duration // of Leave
}

// finishOwn finishes an event of a goroutine that has no more to do with the shard, and frees its mu.
func (n *name) finishOwn(now engine.Time) {
	if n.engine.Still() {
		n.mind(now)
		n.shard.mu.Unlock()
		return
	}
	var t todo
	n.finishLocked(now, &t)
	n.shard.mu.Unlock()
	t.do()
}

// finishFirst is finishOwn for a goroutine that waits for a hold: it runs the first request itself.
func (n *name) finishFirst(now engine.Time, h *Hold, caller context.Context) (answered bool) {
	if n.engine.Still() { // it waits with others
		n.mind(now)
		n.shard.k.expectLocked(h)
		n.shard.mu.Unlock()
		return false
	}
	t := todo{of: h}
	n.finishLocked(now, &t)
	n.shard.mu.Unlock()
	return n.first(&t, caller)
}

// finishLocked applies the effects of an event, or of several that share a todo. The caller runs todo.do when the shard's
// mutex is free.
func (n *name) finishLocked(now engine.Time, t *todo) {
	t.k, t.now = n.shard.k, now
	effects := n.engine.Effects()
	for i := range effects {
		n.apply(&effects[i], t)
	}
	clear(effects) // so that they keep nothing alive
	t.told = t.of != nil && t.of.answer != nil
	n.mind(now)
}

func (n *name) apply(f *protocol.Effect, t *todo) {
	switch f.Do {
	case protocol.Send:
		t.add(n.request(f))
	case protocol.Cut:
		if c := n.slots[f.Claim].claim; c.out != nil {
			c.out.finish()
		}
	case protocol.Trust:
		n.trust(n.claimAt(f.Claim), f, t.now)
	case protocol.Grant:
		h := n.slots[f.Turn].turn
		n.begin(h, f.Turn)
		t.tell(h, nil)
	case protocol.Fail:
		h := n.slots[f.Turn].turn
		n.slots[f.Turn].turn = nil
		t.tell(h, n.shard.k.errorOf(&f.Verdict))
	case protocol.End:
		h := n.slots[f.Turn].turn
		h.endLocked(&Lost{Reason: f.Reason, Err: f.Err}, t)
		n.tell(protocol.Event{Kind: protocol.Ended, Token: h.token, Held: f.Held}, &Lost{Reason: f.Reason, Err: f.Err})
	case protocol.Done:
		n.done(f, t)
	case protocol.Gone:
		n.at(f.Claim).claim = nil
	case protocol.Tell:
		n.tell(f.Event, nil)
	}
}

// trust sets the deadline of a claim's trust for its holders, and reports a renewal to observers.
func (n *name) trust(c *claim, f *protocol.Effect, now engine.Time) {
	before := engine.Time(c.deadline.Swap(int64(f.Until)))
	failing := c.jeopardy.Swap(f.Err != nil)
	switch {
	case n.shard.k.events == nil:
	case f.Err == nil && before != 0: // otherwise its Enter began the first lease
		n.tell(protocol.Event{Kind: protocol.Renewed, Token: n.engine.Ticket(c.slot) * engine.Turns, Margin: before - now}, nil)
	case f.Err != nil && !failing:
		for _, at := range n.slots {
			if h := at.turn; h != nil && h.c == c && h.liveLocked() {
				n.tell(protocol.Event{Kind: protocol.Jeopardized, Token: h.token, Margin: f.Until - now}, f.Err)
			}
		}
	}
}

// request prepares a request of a claim.
func (n *name) request(f *protocol.Effect) send {
	c := n.claimAt(f.Claim)
	s := send{c: c, verb: f.Verb, number: f.Number, limit: f.Limit, keep: f.Keep}
	if f.Verb == protocol.Renew {
		s.asks = new(driver.Claim)
	} else {
		s.call = &call{}
		s.asks = &s.call.asks
		c.out = s.call
	}
	c.describe(s.asks)
	s.asks.Ticket, s.asks.Try = n.engine.Ticket(f.Claim), n.engine.Try(f.Claim)
	if f.Amend {
		s.asks.Amend = n.slots[f.Turn].turn.rareLocked().change.amendment
	}
	return s
}

// claimAt returns the claim in a slot, new if the engine has just begun it.
func (n *name) claimAt(at engine.Slot) *claim {
	if c := n.at(at).claim; c != nil {
		return c
	}
	terms := n.engine.TermsOf(at)
	if w := n.engine.Awaiting(at); w != engine.None {
		terms = n.slots[w].turn.within(terms)
	}
	return n.newClaim(at, rand.Text(), terms)
}

func (n *name) newClaim(at engine.Slot, id string, t *protocol.Terms) *claim {
	c := &claim{n: n, slot: at, name: n.text, id: id}
	c.terms.Store(t)
	n.at(at).claim = c
	return c
}

// done answers a release or an amendment.
func (n *name) done(f *protocol.Effect, t *todo) {
	switch f.Verb {
	case protocol.Renew:
		n.slots[f.Turn].turn.settleLocked(f.Verdict)
	case protocol.Leave:
		h := n.slots[f.Turn].turn
		n.slots[f.Turn].turn = nil
		err := n.shard.k.dated(n.shard.k.errorOf(&f.Verdict), h.c.terms.Load().TTL)
		kind := protocol.Released
		if f.Code == protocol.Lost {
			kind = protocol.Ended
		}
		n.tell(protocol.Event{Kind: kind, Token: h.token, Held: f.Held}, err)
		t.tell(h, err)
	}
}

// mind schedules the timekeeper for the engine, and forgets an idle name.
func (n *name) mind(now engine.Time) {
	s := n.shard
	if s.clearing != nil && s.clearing[n] && !n.engine.Clearing() {
		delete(s.clearing, n)
		s.k.clears.Done()
	}
	if !n.engine.Idle() {
		if due := n.engine.Due(); due != n.due.At() {
			s.agenda.Set(n, due)
			s.next.Store(int64(s.agenda.Next()))
			s.k.time.wake(due, now)
		}
		return
	}
	if n.text == "" {
		return // a late answer to a forgotten name
	}
	s.names.Remove(n)
	n.text = ""
	s.agenda.Remove(n)
	s.next.Store(int64(s.agenda.Next()))
	n.engine.Reset()
	if len(s.spare) < maxSpare {
		s.spare = append(s.spare, n)
	}
}

func (t *todo) add(s send) {
	switch {
	case s.verb == protocol.Renew:
		t.extends = append(t.extends, s)
	case t.send.c == nil:
		t.send = s
	default:
		t.more = append(t.more, s)
	}
}

// tell answers the waiter of a hold.
func (t *todo) tell(h *Hold, err error) {
	if err != nil {
		h.rareLocked().failed = err
	}
	if h.answer == nil {
		h.answer = told
		return
	}
	if t.wake == nil {
		t.wake = h
		return
	}
	t.wakes = append(t.wakes, h)
}

// do wakes waiters, runs the requests in workers, and calls the functions of shares that are over. The shard's mu must be
// free.
func (t *todo) do() {
	t.tellAll()
	if t.send.c != nil {
		t.k.run(t.send)
		t.send.c = nil
	}
	t.rest()
}

func (t *todo) tellAll() {
	if t.wake == nil {
		return
	}
	t.wake.answer <- struct{}{}
	for _, h := range t.wakes {
		h.answer <- struct{}{}
	}
	t.wake, t.wakes = nil, nil
}

// rest does all work except the first request.
func (t *todo) rest() {
	t.tellAll()
	for _, s := range t.more {
		t.k.run(s)
	}
	if len(t.extends) > 0 {
		t.k.extend(t.extends)
	}
	for _, e := range t.ended {
		for w := e.tell; w != nil; w = w.next {
			w.f(e.err)
		}
	}
}

// run starts a request in a worker.
func (k *Keeper) run(s send) {
	k.work.run(func() { k.requests(s) })
}

// first runs the first request of a todo in this goroutine, whose caller's context may be nil, and leaves the rest to
// workers. It reports whether the goroutine got its answer meanwhile. If not, the answer comes on the hold's channel.
func (n *name) first(t *todo, caller context.Context) (answered bool) {
	s := t.send
	t.send = send{}
	t.rest()
	answered = t.told
	if s.c != nil {
		next := todo{of: t.of}
		n.shard.k.request(&s, t.now, caller, &next)
		next.do()
		answered = next.told
	}
	if !answered {
		n.shard.mu.Lock()
		n.shard.k.expectLocked(t.of)
		n.shard.mu.Unlock()
	}
	return answered
}
