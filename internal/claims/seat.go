package claims

import (
	"context"
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

	stop    context.CancelFunc // ends the asking; nil before that needs more than one request
	unsure  bool               // an entering was never answered, and may be on its way yet; does not change once it holds
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
	alerted  bool          // it was in danger when it could not be renewed at once
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
	// In a queue, the line's next claim enters while this one leaves. Elsewhere it would mostly be quicker than those of
	// other processes, who have to be told first, so it enters after that.
	if s.k.traits.Ordered {
		g.move(now)
	}
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
	renewing, keep := s.renewing, time.Duration(0)
	if s.keep > 0 {
		keep = max(0, s.keep-k.clock.now())
	}
	k.mu.Unlock()
	if renewing != nil {
		<-renewing // it ends within a part of the ttl
	}
	began := k.clock.recent()
	err := k.depart(&driver.Departure{Claim: &s.claim, Keep: keep})
	if s.unsure {
		k.mu.Lock()
		k.spawn(func() { k.sweep(&s.claim) })
		k.unlock()
	}
	s.left(began)
	return err
}

// left forgets a claim that is no longer in the store, which it began to leave a while ago.
func (s *seat) left(began time.Duration) {
	k := s.k
	k.mu.Lock()
	defer k.unlock()
	now := k.clock.recent()
	if !k.traits.Ordered && s.stage == leaving {
		c := k.courtesy(s.claim.Name, now)
		c.left, c.took = now, now-began
	}
	s.gate.seats--
	s.gone()
	s.gate.move(now)
}

// gone notes that the claim keeps nobody out any more.
func (s *seat) gone() {
	if s.gate.holder == s {
		s.gate.holder = nil
	}
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
	s.gone()
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
