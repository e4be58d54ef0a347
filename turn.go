package stile

import (
	"container/list"
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// A process queues once, and its goroutines take turns: however many want a lock, the store sees at most one claim of
// theirs that holds and one that waits (for permits, one that waits). A turn costs no round trip, has a token of its
// own, and is bounded in number and in time, so that other processes are not starved.

// turns is how many tokens a ticket is good for. With tickets below 1<<53, tokens stay below 1<<63.
const turns = 1 << 10

// A gate is where the goroutines of one client queue for claims that are alike. All of it is guarded by the client's mu.
type gate struct {
	c      *Client
	key    gateKey
	record string
	line   list.List // of *request, in order of arrival
	tries  int       // how many of them would not wait
	open   []*seat   // where a turn can be had at once: a shared claim, or one that lingers
	now    *seat     // the claim whose turns the line waits for; nil for permits, where each claim is taken by one
	asking *seat     // the claim that is entering the store, or waits there
	seats  int       // claims that have not left the store, asking included
}

// A gateKey is what makes two claims alike.
type gateKey struct {
	name, value, owner, reason string
	weight, of                 int64
	ttl, delay                 time.Duration
	reclaim                    bool
}

// A request is one goroutine that wants a turn.
type request struct {
	answer chan answer // has room for one
	lock   *Lock
	since  time.Duration
	try    bool
}

type answer struct {
	hold *hold
	err  error
}

// acquire takes a turn, or waits for one until ctx ends.
func (c *Client) acquire(ctx context.Context, l *Lock, try bool) (*hold, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	g, err := c.gate(l)
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	now := c.clock.recent()
	if s := g.free(now); s != nil && g.line.Len() == 0 {
		h := g.serve(s, &request{lock: l, since: now}, now)
		c.unlock()
		return h, nil
	}
	r := &request{answer: make(chan answer, 1), lock: l, since: now, try: try}
	place := g.line.PushBack(r)
	if try {
		g.tries++
	}
	g.move(now)
	c.unlock()

	select {
	case a := <-r.answer:
		return a.hold, a.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	select {
	case a := <-r.answer: // it was answered before we could step out: give the turn back
		c.unlock()
		if a.hold != nil {
			h := a.hold
			c.mu.Lock()
			c.spawn(func() { _ = h.release(0) }) // the caller learns of its context's end, and at once
			c.unlock()
		}
	default:
		g.pop(place)
		g.move(c.clock.recent())
		c.unlock()
	}
	return nil, context.Cause(ctx)
}

// gate returns the gate for a lock, new if there is none.
func (c *Client) gate(l *Lock) (*gate, error) {
	o := &l.opts
	key := gateKey{
		name: l.name, value: l.value, owner: o.Owner, reason: o.Reason,
		weight: l.weight, of: l.of, ttl: o.TTL, delay: o.LockDelay, reclaim: o.Reclaim,
	}
	if g := c.gates[key]; g != nil {
		return g, nil
	}
	record, err := l.record()
	if err != nil {
		return nil, err
	}
	g := &gate{c: c, key: key, record: record}
	c.gates[key] = g
	return g, nil
}

func (g *gate) permits() bool { return g.key.of != driver.All }
func (g *gate) shared() bool  { return !g.permits() && g.key.weight != driver.All }

// free returns a claim that a turn can be had from, or nil.
func (g *gate) free(now time.Duration) *seat {
	for len(g.open) > 0 {
		s := g.open[len(g.open)-1]
		if s.usable(now) {
			return s
		}
		g.open = g.open[:len(g.open)-1]
		if len(s.holds) == 0 {
			s.retire()
		}
	}
	return nil
}

// serve gives a turn on a claim.
func (g *gate) serve(s *seat, r *request, now time.Duration) *hold {
	h := &hold{seat: s, token: s.claim.Ticket*turns + s.turn, since: now, refs: 1, linger: r.lock.opts.Linger}
	local := s.turn > 0
	s.turn++
	s.linger = 0
	s.add(h)
	if !g.shared() {
		g.open = g.open[:len(g.open)-1] // where free found it
	}
	if r.lock.opts.MaxHold > 0 {
		h.until = now + r.lock.opts.MaxHold
		g.c.renewals.fix(s)
	}
	if g.c.opts.Observer != nil {
		g.c.tell(Event{Kind: Acquired, Name: g.key.name, Token: h.token, Waited: now - r.since, Local: local})
	}
	return h
}

// move serves the line as far as it can be served, and asks the store for another claim if the line needs one.
func (g *gate) move(now time.Duration) {
	for e := g.line.Front(); e != nil; e = g.line.Front() {
		s := g.free(now)
		if s == nil {
			break
		}
		r := g.pop(e)
		r.answer <- answer{hold: g.serve(s, r, now)}
	}
	if g.now != nil && !g.now.usable(now) {
		g.now = nil
	}
	switch {
	case g.line.Len() == 0 && g.asking != nil:
		g.asking.abandon()
		g.asking = nil
	case g.line.Len() > 0 && g.asking == nil && g.now == nil:
		g.ask(g.line.Front().Value.(*request).try)
	}
	if g.asking == nil || g.asking.waits {
		g.refuse(nil)
	}
	if s := g.now; s != nil && g.line.Len() > 0 && !s.watched {
		s.watched = true
		g.c.renewals.fix(s)
	}
	if g.line.Len() == 0 && g.seats == 0 && g.c.gates[g.key] == g {
		delete(g.c.gates, g.key)
	}
}

// refuse answers the tries in the line, once it is known that they would have to wait. A nil error means that this
// process knows by itself who is in the way.
func (g *gate) refuse(err error) {
	for e := g.line.Front(); e != nil && g.tries > 0; {
		next := e.Next()
		if r := e.Value.(*request); r.try {
			if err == nil {
				err = g.heldBy(g.c.clock.recent())
			}
			g.pop(e)
			r.answer <- answer{err: err}
		}
		e = next
	}
}

// heldBy says who is in the way, as far as this process knows.
func (g *gate) heldBy(now time.Duration) *HeldError {
	if s := g.asking; s != nil && s.blocker.Record != "" {
		return &HeldError{By: holderOf(s.blocker.Record), Remaining: s.blocker.Remaining}
	}
	held := &HeldError{By: holderOf(g.record)}
	if g.now != nil {
		held.Remaining = g.now.deadline - now
	}
	return held
}

// fail answers everybody in the line.
func (g *gate) fail(err error) {
	for e := g.line.Front(); e != nil; e = g.line.Front() {
		g.pop(e).answer <- answer{err: err}
	}
}

// pop takes a request out of the line.
func (g *gate) pop(e *list.Element) *request {
	r := g.line.Remove(e).(*request)
	if r.try {
		g.tries--
	}
	return r
}
