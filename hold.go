package stile

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// A hold is one turn on a claim: what stands behind a lease, or several that share it by re-entering. It is guarded by
// the client's mu.
type hold struct {
	seat   *seat
	index  int // in seat.holds
	token  int64
	since  time.Duration
	until  time.Duration // MaxHold's end; 0 means none
	linger time.Duration
	refs   int     // leases that share it
	taken  uintptr // by whose call
	ended  error   // why it is over
	ends   []context.CancelCauseFunc
}

// share makes another lease of the same hold.
func (h *hold) share() error {
	c := h.seat.c
	c.mu.Lock()
	defer c.unlock()
	h.look(c.clock.now())
	if h.ended == nil {
		h.refs++
	}
	return h.ended
}

// look ends what is over by the clock.
func (h *hold) look(now time.Duration) {
	if h.ended != nil {
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
func (h *hold) outstay(now time.Duration) {
	h.seat.frozen = true
	h.lose(&LostError{Reason: HeldLong}, now)
}

func (h *hold) lose(err *LostError, now time.Duration) {
	if h.ended != nil {
		return
	}
	c := h.seat.c
	c.tell(Event{Kind: Lost, Name: h.seat.claim.Name, Token: h.token, Held: now - h.since, Err: err})
	h.end(err)
}

// end makes the hold over, for this reason.
func (h *hold) end(err error) {
	h.ended = err
	for _, cancel := range h.ends {
		h.seat.c.later = append(h.seat.c.later, func() { cancel(err) })
	}
	h.ends = nil
}

// whenEnded has a context cancelled when the hold is over.
func (h *hold) whenEnded(cancel context.CancelCauseFunc) {
	c := h.seat.c
	c.mu.Lock()
	defer c.unlock()
	if h.ended != nil {
		err := h.ended
		c.later = append(c.later, func() { cancel(err) })
		return
	}
	h.ends = append(h.ends, cancel)
}

func (h *hold) state() State {
	switch {
	case errors.Is(h.ended, ErrLost):
		return LostState
	case h.ended != nil:
		return ReleasedState
	case h.seat.failure != nil:
		return JeopardyState
	}
	return HeldState
}

// release gives one share back; with the last, the turn ends.
func (h *hold) release(keep time.Duration) error {
	s := h.seat
	c := s.c
	c.mu.Lock()
	now := c.clock.recent()
	h.look(now)
	if h.refs--; h.refs > 0 {
		defer c.unlock()
		return h.ended
	}
	over := h.ended
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
			c.spawn(func() { _ = s.leave() })
		}
		c.unlock()
		return over
	}
	leave := s.freed(now, h.linger)
	released := Event{Kind: Released, Name: s.claim.Name, Token: h.token, Held: now - h.since}
	if !leave && over == nil {
		c.tell(released)
	}
	c.unlock()
	if !leave {
		return over
	}
	err := s.leave()
	if over != nil {
		return over
	}
	if errors.Is(err, driver.ErrGone) {
		err = &LostError{Reason: Removed}
		released.Kind = Lost
	}
	if c.opts.Observer != nil {
		released.Err = err
		c.opts.Observer(released)
	}
	return err
}
