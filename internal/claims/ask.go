package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// A waiter's lease is short, so that one that died delays those behind it only this long.
const waiterTTL = 6 * time.Second

// ask makes a new claim for the gate's line. The caller must see to it that it enters the store.
func (g *gate) ask(try bool) *seat {
	w := &g.terms
	s := &seat{k: g.k, gate: g, index: -1, claim: driver.Claim{
		Name: w.Name, ID: rand.Text(), Client: g.k.id, Weight: w.Weight, Capacity: w.Capacity,
		TTL: w.TTL, Wait: min(w.TTL, waiterTTL), Delay: w.Delay, Try: try,
		Owner: w.Owner, Reclaim: w.Reclaim, Record: w.Record,
	}}
	g.asking = s
	g.seats++
	return s
}

// begin has the claim enter the store in the goroutine of one who wants it, and leaves what is more than one request to
// another: mostly the lock is free, and waking a goroutine twice costs as much as a good part of a round trip.
func (s *seat) begin(ctx context.Context) {
	k := s.k
	defer k.work.Done()
	r := s.send(ctx)
	if r.err == nil && r.place.Holds {
		if ok, _ := s.granted(r.sent, r.place.TTL, false); ok {
			return
		}
	}
	if r.final() {
		s.pursue(&r)
		return
	}
	k.mu.Lock()
	closed := k.closed
	k.spawn(func() { s.pursue(&r) })
	k.unlock()
	if closed {
		s.pursue(&r) // there is nothing to wait for, but something to clear away
	}
}

// pursue has the claim enter the store, unless it has and this was the answer, and sees to it until it holds or is out
// of the store.
func (s *seat) pursue(r *reply) {
	k := s.k
	ctx, stop := context.WithCancel(k.base)
	defer stop()
	k.mu.Lock()
	if s.stop = stop; s.gate.asking != s {
		stop()
	}
	k.mu.Unlock()
	stands, err := s.enter(ctx, r)
	if err == nil {
		return
	}
	s.dropped(err)
	// Nobody waits for the outcome: if the store does not answer, the claim runs out.
	if stands {
		_ = k.depart(&driver.Departure{Claim: &s.claim})
	}
	if s.unsure {
		k.sweep(&s.claim)
	}
	s.left(0)
}

// abandon ends the asking, since nobody wants the claim any more. Whoever asks takes it out of the store.
func (s *seat) abandon() {
	if s.stop != nil {
		s.stop()
	}
}

// dropped answers those who wait for a claim that did not come to hold.
func (s *seat) dropped(err error) {
	g := s.gate
	s.k.mu.Lock()
	defer s.k.unlock()
	if g.asking != s {
		return
	}
	g.asking = nil
	if s.claim.Try && isHeld(err) {
		g.refuse(err)
	} else {
		g.fail(err)
	}
	g.move(s.k.clock.now())
}

// enter has the claim enter its queue and wait there until it holds. It returns nil when it does. With an error it tells
// whether the claim stands in the store.
func (s *seat) enter(ctx context.Context, first *reply) (stands bool, err error) {
	k := s.k
	var (
		slow, early backoff
		alive       time.Duration // when the request was sent that last kept our place
	)
	for {
		p, sent, err := s.call(ctx, first)
		first = nil
		stands = stands || p.Ticket != 0
		switch {
		case errors.Is(err, driver.ErrGone) && k.clock.now() >= alive+s.claim.Wait:
			// Our place ran out while we were not running. An id is never used twice: start again at the tail.
			s.claim.ID, s.claim.Ticket, stands = rand.Text(), 0, false
			continue
		case errors.Is(err, driver.ErrGone):
			return false, &Lost{Reason: goneFor(err)}
		case err != nil:
			return stands, err
		case p.Holds:
			if ok, err := s.granted(sent, p.TTL, false); ok || err != nil {
				return stands, err
			}
			if err := slow.wait(ctx, k.conf.Patience, errTooSlow); err != nil {
				return stands, err
			}
			continue
		case p.Ticket == 0:
			return stands, &Held{By: p.Blocker.Record, Remaining: p.Blocker.Remaining}
		}
		alive = sent
		if !k.traits.Ordered && p.Blocker.Ticket != s.blocker.Ticket {
			early = backoff{} // the lock was free in between
		}
		s.queued(p)
		if ok, err := s.await(ctx, &early, p, sent); ok || err != nil {
			return stands, err
		}
	}
}

var errTooSlow = errors.New("the store takes longer to answer than the lease lasts")

// await waits until the claim may hold, and tells whether it does.
func (s *seat) await(ctx context.Context, early *backoff, p driver.Place, sent time.Duration) (bool, error) {
	again := sent + s.claim.Wait*2/3 - s.k.clock.now() // the place itself must be kept alive
	if p.Retry > 0 {
		again = min(again, p.Retry+time.Millisecond)
	}
	wctx, cancel := context.WithTimeout(ctx, max(again, time.Millisecond))
	began := s.k.clock.recent()
	got, err := s.k.d.Await(wctx, &s.claim)
	timely := wctx.Err() != nil
	cancel()
	switch {
	case context.Cause(ctx) != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, driver.ErrClosed):
		return false, err
	case err == nil && got.Holds:
		// The claim holds on the lease that its last entering began: trust that much, and have it renewed at once.
		return s.granted(sent, p.TTL, true)
	case timely:
		*early = backoff{}
		return false, nil //nolint:nilerr // a wait that was not told ends like this
	case err == nil && !s.k.traits.Ordered && s.k.clock.recent()-began > atOnce:
		*early = backoff{}
		return false, nil // the lock was free, and others may have been quicker
	case err == nil && early.tries < 3:
		early.tries++ // early is allowed; early all the time would be a spin
		return false, nil
	}
	return false, early.wait(ctx, 0, nil)
}

// atOnce is for how long a driver has not waited when its Await returns within that.
const atOnce = 200 * time.Microsecond

// A reply is what became of one request to enter.
type reply struct {
	place driver.Place
	sent  time.Duration // may be a little too early, never too late
	err   error
}

// final reports whether asking again would be no use.
func (r *reply) final() bool {
	if r.err == nil {
		return r.place.Ticket == 0 // of a try
	}
	return driver.IsRejected(r.err) && !driver.IsUnreachable(r.err)
}

// send asks the store once for the claim's place.
func (s *seat) send(ctx context.Context) (r reply) {
	s.giveWay(ctx)
	r.sent = s.k.clock.recent()
	ctx, cancel := context.WithTimeout(ctx, s.k.conf.Patience)
	defer cancel()
	r.place, r.err = s.k.d.Enter(ctx, &s.claim)
	if r.err == nil && r.place.Ticket != 0 {
		s.claim.Ticket = r.place.Ticket
	}
	s.unsure = s.unsure || r.err != nil && !driver.IsRejected(r.err)
	return r
}

// call asks the store for the claim's place, again and again while the store does not answer and patience lasts, unless
// the first answer is there already. It returns when the request that was answered was sent.
func (s *seat) call(ctx context.Context, first *reply) (driver.Place, time.Duration, error) {
	k := s.k
	var pause backoff
	patience := k.conf.Patience
	if s.claim.Ticket != 0 {
		patience *= 12 // it has waited, and does not give up for a restart or a failover
	}
	for {
		var r reply
		if first != nil {
			r, first = *first, nil
		} else {
			r = s.send(ctx)
		}
		if r.err == nil || r.final() {
			return r.place, r.sent, r.err
		}
		if cause := context.Cause(ctx); cause != nil {
			return r.place, r.sent, cause
		}
		if err := pause.wait(ctx, patience, r.err); err != nil {
			if s.unsure && context.Cause(ctx) == nil {
				err = &Unknown{Until: k.ghost(&s.claim), Err: err}
			}
			return r.place, r.sent, err
		}
	}
}

// queued notes that the claim has to wait, and refuses those who would not.
func (s *seat) queued(p driver.Place) {
	k := s.k
	k.mu.Lock()
	defer k.unlock()
	if !s.waits && k.conf.Observe != nil {
		k.tell(Event{Kind: Waiting, Name: s.claim.Name, Token: p.Ticket * Turns})
	}
	s.waits, s.blocker = true, p.Blocker
	if !k.traits.Ordered {
		now := k.clock.recent()
		k.courtesy(s.claim.Name, now).refused = now
	}
	if s.gate.asking == s {
		s.gate.refuse(s.gate.heldBy(k.clock.now()))
	}
}

// granted makes the claim one that turns can be had from, unless too little of its lease is left to be of use. Early
// says that the lease is a waiter's short one, which wants renewing at once.
func (s *seat) granted(sent, ttl time.Duration, early bool) (bool, error) {
	k, g := s.k, s.gate
	k.mu.Lock()
	defer k.unlock()
	now := k.clock.recent()
	deadline := k.trusted(sent, ttl)
	if deadline-now < ttl/10 {
		return false, nil
	}
	if g.asking != s {
		return false, context.Canceled // abandoned
	}
	g.asking = nil
	s.stage, s.waits = held, false
	s.confirm(sent, ttl)
	if early {
		s.renewAt = now + handOverRenewal
	}
	s.turnEnd = now + k.conf.Turn
	if e := g.line.Front(); e != nil {
		s.turnEnd += e.Value.(*request).want.Linger
	}
	if !g.permits() {
		g.now = s
	}
	if !k.traits.Ordered && !g.permits() && !g.shared() {
		g.holder = s
	}
	k.renewals.fix(s)
	g.open = append(g.open, s)
	g.move(now)
	if len(s.holds) == 0 {
		s.retire()
	}
	return true, nil
}
