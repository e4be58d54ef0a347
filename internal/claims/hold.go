package claims

import (
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Hold is one turn on a claim. It may be shared, and is over when all shares are given back, or when it is lost. It is
// guarded by the keeper's mu.
type Hold struct {
	seat   *seat
	index  int // in seat.holds
	token  int64
	since  time.Duration
	until  time.Duration // MaxHold's end; 0 means none
	linger time.Duration
	refs   int   // shares
	over   error // why it is over
	ends   []func(error)
}

// Terms are those of its claim.
func (h *Hold) Terms() *Terms { return &h.seat.gate.terms }

// Token is its fencing token.
func (h *Hold) Token() int64 { return h.token }

// Share makes another share of the hold. The error is why it is over.
func (h *Hold) Share() error {
	k := h.seat.k
	k.mu.Lock()
	defer k.unlock()
	h.look(k.clock.now())
	if h.over == nil {
		h.refs++
	}
	return h.over
}

// Check returns nil while the hold can be trusted, by a look at the clock; else why it is over.
func (h *Hold) Check() error {
	k := h.seat.k
	k.mu.Lock()
	defer k.unlock()
	h.look(k.clock.now())
	return h.over
}

// Left returns for how long the hold can be trusted if it is not renewed any more, and whether the last renewal failed.
// A hold that is over has nothing left.
func (h *Hold) Left() (left time.Duration, jeopardy bool) {
	k := h.seat.k
	k.mu.Lock()
	defer k.unlock()
	now := k.clock.now()
	h.look(now)
	if h.over != nil {
		return 0, false
	}
	end := h.seat.deadline
	if h.until != 0 {
		end = min(end, h.until)
	}
	return end - now, h.seat.failure != nil
}

// WhenOver has f called with the reason when the hold is over, at once if it is.
func (h *Hold) WhenOver(f func(error)) {
	k := h.seat.k
	k.mu.Lock()
	defer k.unlock()
	if err := h.over; err != nil {
		k.later = append(k.later, func() { f(err) })
		return
	}
	h.ends = append(h.ends, f)
}

// look ends what is over by the clock.
func (h *Hold) look(now time.Duration) {
	if h.over != nil {
		return
	}
	if now >= h.seat.deadline {
		h.seat.lose(Expired, now)
	} else if h.until != 0 && now >= h.until {
		h.outstay(now)
	}
}

// outstay ends a hold that was held as long as it may be. Its claim is not renewed any more, but stays until it is
// released or runs out, since the work under it may not have stopped.
func (h *Hold) outstay(now time.Duration) {
	h.seat.frozen = true
	h.lose(&Lost{Reason: HeldLong}, now)
}

func (h *Hold) lose(err *Lost, now time.Duration) {
	if h.over != nil {
		return
	}
	k := h.seat.k
	k.tell(Event{Kind: Ended, Name: h.seat.claim.Name, Token: h.token, Held: now - h.since, Err: err})
	h.end(err)
}

// end makes the hold over, for this reason.
func (h *Hold) end(err error) {
	h.over = err
	for _, f := range h.ends {
		h.seat.k.later = append(h.seat.k.later, func() { f(err) })
	}
	h.ends = nil
}

// Release gives one share back. With the last the turn ends, and the claim is handed on, lingers, or leaves the store,
// which keeps the lock taken for so long after. The error is a [*Lost] if the hold was lost before; an [*Unknown] if the
// store did not answer.
func (h *Hold) Release(keep time.Duration) error {
	s := h.seat
	k := s.k
	k.mu.Lock()
	now := k.clock.recent()
	h.look(now)
	if h.refs--; h.refs > 0 {
		defer k.unlock()
		return h.over
	}
	over := h.over
	if keep > 0 {
		s.keep = max(s.keep, now+keep)
	}
	if over == nil {
		h.end(ErrReleased)
	}
	s.remove(h)
	if s.stage == lost {
		// The store may still have the claim; now that the work under it is over, it need not run out. After closing
		// there is nobody left to ask.
		if len(s.holds) == 0 {
			k.spawn(func() { _ = s.leave() })
		}
		k.unlock()
		return over
	}
	leave := s.freed(now, h.linger)
	released := Event{Kind: Released, Name: s.claim.Name, Token: h.token, Held: now - h.since}
	if !leave && over == nil {
		k.tell(released)
	}
	k.unlock()
	if !leave {
		return over
	}
	err := s.leave()
	if over != nil {
		return over
	}
	if errors.Is(err, driver.ErrGone) {
		err = &Lost{Reason: goneFor(err)}
		released.Kind = Ended
	}
	if k.conf.Observe != nil {
		released.Err = err
		k.conf.Observe(released)
	}
	return err
}
