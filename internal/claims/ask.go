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

// ask has a new claim enter the store for the gate's line.
func (g *gate) ask(try bool) {
	w := &g.terms
	ctx, stop := context.WithCancel(g.k.base)
	s := &seat{k: g.k, gate: g, stop: stop, index: -1, claim: driver.Claim{
		Name: w.Name, ID: rand.Text(), Client: g.k.id, Weight: w.Weight, Capacity: w.Capacity,
		TTL: w.TTL, Wait: min(w.TTL, waiterTTL), Delay: w.Delay, Try: try,
		Owner: w.Owner, Reclaim: w.Reclaim, Record: w.Record,
	}}
	g.asking = s
	g.seats++
	g.k.spawn(func() {
		defer stop()
		stands, err := s.enter(ctx)
		if err == nil {
			return
		}
		s.dropped(err)
		// Nobody waits for the outcome: if the store does not answer, the claim runs out.
		if stands {
			_ = g.k.depart(&driver.Departure{Claim: &s.claim})
		}
		if s.unsure {
			g.k.sweep(&s.claim)
		}
		s.left()
	})
}

// abandon ends the asking, since nobody wants the claim any more. The goroutine that asks takes it out of the store.
func (s *seat) abandon() { s.stop() }

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
func (s *seat) enter(ctx context.Context) (stands bool, err error) {
	k := s.k
	var (
		slow, early backoff
		alive       time.Duration // when the request was sent that last kept our place
	)
	for {
		p, sent, err := s.call(ctx)
		stands = stands || p.Ticket != 0
		switch {
		case errors.Is(err, driver.ErrGone) && k.clock.now() >= alive+s.claim.Wait:
			// Our place ran out while we were not running. An id is never used twice: start again at the tail.
			s.claim.ID, s.claim.Ticket, stands = rand.Text(), 0, false
			continue
		case errors.Is(err, driver.ErrGone):
			return false, &Lost{Reason: Removed}
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
		s.queued(p)
		if ok, err := s.await(ctx, &early, p, sent); ok || err != nil {
			return stands, err
		}
	}
}

var errTooSlow = errors.New("the store takes longer to answer than the lease lasts")

// await waits until the claim may hold, and tells whether it does.
func (s *seat) await(ctx context.Context, early *backoff, p driver.Place, sent time.Duration) (bool, error) {
	again := sent + s.claim.Wait/2 - s.k.clock.now() // the place itself must be kept alive
	if p.Retry > 0 {
		again = min(again, p.Retry+time.Millisecond)
	}
	wctx, cancel := context.WithTimeout(ctx, max(again, time.Millisecond))
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
	case err == nil && early.tries < 3:
		early.tries++ // early is allowed; early all the time would be a spin
		return false, nil
	}
	return false, early.wait(ctx, 0, nil)
}

// call asks the store for the claim's place, again and again while the store does not answer and patience lasts. It
// returns when the request that was answered was sent.
func (s *seat) call(ctx context.Context) (p driver.Place, sent time.Duration, err error) {
	k := s.k
	var pause backoff
	patience := k.conf.Patience
	if s.claim.Ticket != 0 {
		patience *= 12 // it has waited, and does not give up for a restart or a failover
	}
	for {
		sent = k.clock.recent() // may be too early, never too late
		cctx, cancel := context.WithTimeout(ctx, k.conf.Patience)
		p, err = k.d.Enter(cctx, &s.claim)
		cancel()
		switch {
		case err == nil:
			if p.Ticket != 0 {
				s.claim.Ticket = p.Ticket
			}
			return p, sent, nil
		case driver.IsRejected(err) && !driver.IsUnreachable(err):
			return p, sent, err
		}
		s.unsure = s.unsure || !driver.IsRejected(err)
		if cause := context.Cause(ctx); cause != nil {
			return p, sent, cause
		}
		if err := pause.wait(ctx, patience, err); err != nil {
			if s.unsure && context.Cause(ctx) == nil {
				err = &Unknown{Until: k.ghost(&s.claim), Err: err}
			}
			return p, sent, err
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
	s.confirm(sent, deadline)
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
	k.renewals.fix(s)
	g.open = append(g.open, s)
	g.move(now)
	if len(s.holds) == 0 {
		s.retire()
	}
	return true, nil
}
