package claims

import (
	"container/list"
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// Turns is how many tokens a ticket is good for. With tickets below 1<<53, tokens stay below 1<<63.
const Turns = 1 << 10

// Terms are what makes two claims alike: goroutines that want the same on the same terms take turns on one claim.
type Terms struct {
	Name             string
	Weight, Capacity int64
	TTL, Delay       time.Duration
	Owner            string
	Reclaim          bool
	Record           string
}

// A Want is what one goroutine asks for.
type Want struct {
	Terms
	Linger  time.Duration // how long the claim stays after the last turn, for the next
	MaxHold time.Duration // the hold ends after this; 0 means never
}

// A gate is where the goroutines of one process queue for claims on the same terms. All of it is guarded by the
// keeper's mu.
type gate struct {
	k      *Keeper
	terms  Terms
	line   list.List // of *request, in order of arrival
	tries  int       // how many of them would not wait
	open   []*seat   // where a turn can be had at once: a shared claim, or one that lingers
	now    *seat     // the claim whose turns the line waits for; nil for permits, where each claim is taken by one
	asking *seat     // the claim that is entering the store, or waits there
	holder *seat     // in a store without a queue: the claim that keeps all others out, so that it is no use to ask
	seats  int       // claims that have not left the store, asking included
}

// A request is one goroutine that wants a turn.
type request struct {
	answer chan answer // has room for one
	want   *Want
	since  time.Duration
	try    bool
}

type answer struct {
	hold *Hold
	err  error
}

// Acquire takes a turn, or waits for one until ctx ends, whose cause is the error then. A try does not wait: the error
// is a [*Held] if it would have to.
func (k *Keeper) Acquire(ctx context.Context, w *Want, try bool) (*Hold, error) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil, driver.ErrClosed
	}
	g := k.gate(&w.Terms)
	now := k.clock.recent()
	if s := g.free(now); s != nil && g.line.Len() == 0 {
		h := g.serve(s, w, now, now)
		k.unlock()
		return h, nil
	}
	r := &request{answer: make(chan answer, 1), want: w, since: now, try: try}
	place := g.line.PushBack(r)
	if try {
		g.tries++
	}
	s := g.step(now)
	if s != nil {
		k.work.Add(1) // Close waits for begin
	}
	k.unlock()
	if s != nil {
		s.begin(ctx)
	}

	select {
	case a := <-r.answer:
		return a.hold, a.err
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.unlock()
	select {
	case a := <-r.answer: // it was answered before we could step out: give the turn back
		if a.hold != nil {
			k.spawn(func() { _ = a.hold.Release(0) }) // the caller learns of its context's end, and at once
		}
	default:
		g.pop(place)
		g.move(k.clock.recent())
	}
	return nil, context.Cause(ctx)
}

// gate returns the gate for claims on these terms, new if there is none.
func (k *Keeper) gate(t *Terms) *gate {
	g := k.gates[*t]
	if g == nil {
		g = &gate{k: k, terms: *t}
		k.gates[*t] = g
	}
	return g
}

func (g *gate) permits() bool { return g.terms.Capacity != driver.All }
func (g *gate) shared() bool  { return !g.permits() && g.terms.Weight != driver.All }

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

// serve gives a turn on a claim, to one who has wanted it since then.
func (g *gate) serve(s *seat, w *Want, since, now time.Duration) *Hold {
	h := &Hold{seat: s, token: s.claim.Ticket*Turns + s.turn, since: now, refs: 1, linger: w.Linger}
	local := s.turn > 0
	s.turn++
	s.linger = 0
	s.add(h)
	if !g.shared() {
		g.open = g.open[:len(g.open)-1] // where free found it
	}
	if w.MaxHold > 0 {
		h.until = now + w.MaxHold
		g.k.renewals.fix(s)
	}
	if g.k.conf.Observe != nil {
		g.k.tell(Event{Kind: Acquired, Name: g.terms.Name, Token: h.token, Waited: now - since, Local: local})
	}
	return h
}

// move serves the line as far as it can be served, and asks the store for another claim if the line needs one.
func (g *gate) move(now time.Duration) {
	if s := g.step(now); s != nil {
		g.k.spawn(func() { s.pursue(nil) })
	}
}

// step is move that leaves it to the caller to have a new claim enter the store.
func (g *gate) step(now time.Duration) (enters *seat) {
	for e := g.line.Front(); e != nil; e = g.line.Front() {
		s := g.free(now)
		if s == nil {
			break
		}
		r := g.pop(e)
		r.answer <- answer{hold: g.serve(s, r.want, r.since, now)}
	}
	if g.now != nil && !g.now.usable(now) {
		g.now = nil
	}
	switch {
	case g.line.Len() == 0 && g.asking != nil:
		g.asking.abandon()
		g.asking = nil
	case g.line.Len() > 0 && g.asking == nil && g.now == nil && g.holder == nil:
		enters = g.ask(g.line.Front().Value.(*request).try)
	}
	if g.asking == nil || g.asking.waits {
		g.refuse(nil)
	}
	if s := g.now; s != nil && g.line.Len() > 0 && !s.watched {
		s.watched = true
		g.k.renewals.fix(s)
	}
	if g.line.Len() == 0 && g.seats == 0 && g.k.gates[g.terms] == g {
		delete(g.k.gates, g.terms)
	}
	return enters
}

// refuse answers the tries in the line, once it is known that they would have to wait. A nil error means that this
// process knows by itself who is in the way.
func (g *gate) refuse(err error) {
	for e := g.line.Front(); e != nil && g.tries > 0; {
		next := e.Next()
		if r := e.Value.(*request); r.try {
			if err == nil {
				err = g.heldBy(g.k.clock.recent())
			}
			g.pop(e)
			r.answer <- answer{err: err}
		}
		e = next
	}
}

// heldBy says who is in the way, as far as this process knows.
func (g *gate) heldBy(now time.Duration) *Held {
	if s := g.asking; s != nil && s.blocker.Record != "" {
		return &Held{By: s.blocker.Record, Remaining: s.blocker.Remaining}
	}
	held := &Held{By: g.terms.Record}
	if g.now != nil {
		held.Remaining = max(0, g.now.deadline-now)
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
