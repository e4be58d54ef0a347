package claims

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A seat is one claim of this process in the store, from its entering until it has left. Its goroutines take turns on it.
// All of it is guarded by the keeper's mu, but for the claim, which belongs to whoever is asking until it holds and does
// not change after that.
type seat struct {
	k     *Keeper
	gate  *gate
	claim driver.Claim
	stop  context.CancelFunc // ends the asking

	unsure  bool // an entering was never answered, and may be on its way yet; does not change once it holds
	stage   stage
	waits   bool            // the store answered that it has to wait
	blocker driver.Standing // for whom

	holds    []*Hold
	turn     int64         // tokens given
	turnEnd  time.Duration // no turn begins after this
	watched  bool          // the renewer looks at it then, for a line that waits
	linger   time.Duration // with no holds: when it leaves
	keep     time.Duration // the store is to keep the lock taken until then
	deadline time.Duration // until when it is trusted
	asleep   int64         // how long the machine had slept when the lease was last confirmed

	renewAt  time.Duration
	renewing chan struct{} // closed when the renewal under way has ended; nil if there is none
	failure  error         // of the last renewal; the lease is in jeopardy
	frozen   bool          // no longer renewed
	due      time.Duration // when the renewer has to look at it
	index    int           // in the renewer's heap; -1 if not there
}

type stage int

const (
	asking stage = iota
	held
	lost
	leaving
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

// left forgets a claim that is no longer in the store.
func (s *seat) left() {
	s.k.mu.Lock()
	defer s.k.unlock()
	s.gate.seats--
	s.gate.move(s.k.clock.recent())
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
		return false, nil
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

// usable reports whether another turn may begin on the claim.
func (s *seat) usable(now time.Duration) bool {
	return s.stage == held && s.failure == nil && !s.frozen && s.keep == 0 && s.turn < Turns &&
		now < min(s.turnEnd, s.deadline)
}

// freed goes on after a hold has ended: with the next turn, or by lingering, or, if it returns true, by leaving the
// store, which the caller must see to.
func (s *seat) freed(now, linger time.Duration) bool {
	g := s.gate
	if len(s.holds) > 0 || s.stage != held {
		return false
	}
	if s.usable(now) {
		if !slices.Contains(g.open, s) {
			g.open = append(g.open, s)
		}
		g.move(now)
		if len(s.holds) > 0 {
			return false
		}
		if linger > 0 && !s.k.closed {
			s.linger = now + linger
			s.k.renewals.fix(s)
			return false
		}
	}
	s.depart()
	// The line's next claim enters while this one leaves.
	g.move(now)
	return true
}

// depart makes the claim one that is leaving.
func (s *seat) depart() {
	s.stage = leaving
	s.withdraw()
}

// withdraw takes the claim out of everything that would use it.
func (s *seat) withdraw() {
	g := s.gate
	s.k.renewals.remove(s)
	if i := slices.Index(g.open, s); i >= 0 {
		g.open = slices.Delete(g.open, i, i+1)
	}
	if g.now == s {
		g.now = nil
	}
}

// retire has an unused claim leave the store, in a goroutine of its own.
func (s *seat) retire() {
	s.depart()
	s.k.spawn(func() { _ = s.leave() }) // nobody waits for the outcome
}

// leave takes the claim out of the store.
func (s *seat) leave() error {
	k := s.k
	k.mu.Lock()
	renewing, keep := s.renewing, max(0, s.keep-k.clock.now())
	k.mu.Unlock()
	if renewing != nil {
		<-renewing // it ends within a part of the ttl
	}
	err := k.depart(&driver.Departure{Claim: &s.claim, Keep: keep})
	if s.unsure {
		k.mu.Lock()
		k.spawn(func() { k.sweep(&s.claim) })
		k.unlock()
	}
	s.left()
	return err
}

// lose ends the leases on the claim: others may hold the lock from now on.
func (s *seat) lose(reason Reason, now time.Duration) {
	if s.stage != held {
		return
	}
	if reason == Expired && s.k.clock.asleep.Load() > s.asleep {
		reason = Suspended
	}
	s.stage = lost
	s.withdraw()
	err := &Lost{Reason: reason, Err: s.failure}
	for _, h := range slices.Clone(s.holds) {
		h.lose(err, now)
	}
	if len(s.holds) == 0 {
		s.gate.seats--
	}
	s.gate.move(now)
}

func (s *seat) add(h *Hold) {
	h.index = len(s.holds)
	s.holds = append(s.holds, h)
}

func (s *seat) remove(h *Hold) {
	last := len(s.holds) - 1
	s.holds[h.index] = s.holds[last]
	s.holds[h.index].index = h.index
	s.holds[last] = nil
	s.holds = s.holds[:last]
}
