package stile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Handle names a claim that stays in the store while no process looks after it, so that another can take it up: a
// shell script locks in one command and unlocks in the next. Whoever has it can release the lock; keep it secret.
type Handle struct {
	Name      string
	ID        string
	Weight    int64
	Capacity  int64
	Token     int64
	TTL       time.Duration
	LockDelay time.Duration
}

// Detach ends the lease here but leaves the claim in the store, with its whole ttl from now on unless it is attached
// again. The lease is released, as far as this process is concerned. A joined lock, one that was re-entered, or a
// reader's that others of this process share cannot be detached.
func (l *Lease) Detach(ctx context.Context) (Handle, error) {
	fail := func(err error) (Handle, error) {
		return Handle{}, &Error{Op: "detach", Name: l.Name(), Err: explain(err)}
	}
	if l.hold == nil {
		return fail(fmt.Errorf("%w: a joined lock cannot be detached", ErrUnsupported))
	}
	if err := l.Check(); err != nil {
		return fail(errors.Unwrap(err))
	}
	h, s := l.hold, l.hold.seat
	c := s.c
	c.mu.Lock()
	if h.refs > 1 || len(s.holds) > 1 {
		c.unlock()
		return fail(fmt.Errorf("%w: the claim is shared inside this process", ErrUnsupported))
	}
	s.frozen = true // no more turns, no more renewals but ours
	renewing := s.renewing
	c.unlock()
	if renewing != nil {
		<-renewing
	}
	r := c.d.Renew(ctx, []*driver.Claim{&s.claim})[0]
	if errors.Is(r.Err, driver.ErrGone) {
		c.mu.Lock()
		s.lose(Removed, c.clock.now())
		c.unlock()
		return fail(&LostError{Reason: Removed})
	}
	if r.Err != nil {
		c.mu.Lock()
		s.frozen = false
		c.renewals.fix(s)
		c.unlock()
		return fail(r.Err)
	}
	c.mu.Lock()
	defer c.unlock()
	l.done = true
	l.leak.Stop()
	h.end(ErrReleased)
	s.remove(h)
	s.depart()
	s.gate.seats--
	s.gate.move(c.clock.now())
	return Handle{
		Name: s.claim.Name, ID: s.claim.ID, Weight: s.claim.Weight, Capacity: s.claim.Capacity, Token: h.token,
		TTL: s.claim.TTL, LockDelay: s.claim.Delay,
	}, nil
}

// Attach takes a detached claim up again: the lease has the token that it had, and is renewed from now on. The error is
// [ErrLost] if the claim has run out.
func (c *Client) Attach(ctx context.Context, handle Handle) (*Lease, error) {
	fail := func(err error) (*Lease, error) {
		return nil, &Error{Op: "attach", Name: handle.Name, Err: explain(err)}
	}
	l := &Lock{c: c, name: handle.Name, weight: handle.Weight, of: handle.Capacity, opts: c.opts.LockOptions}
	l.opts.TTL, l.opts.LockDelay = handle.TTL, handle.LockDelay
	if err := driver.CheckName(handle.Name); err != nil {
		return fail(fmt.Errorf("%w handle: %w", ErrInvalid, err))
	}
	if handle.ID == "" || handle.Token < turns || handle.Weight < 1 || handle.Capacity < handle.Weight {
		return fail(fmt.Errorf("%w handle: it was not made by Detach", ErrInvalid))
	}
	if err := l.check(); err != nil {
		return fail(err)
	}
	s := &seat{c: c, index: -1, stop: func() {}, turn: turns, claim: driver.Claim{
		Name: handle.Name, ID: handle.ID, Client: c.id, Weight: handle.Weight, Capacity: handle.Capacity,
		TTL: handle.TTL, Wait: min(handle.TTL, waiterTTL), Delay: handle.LockDelay, Ticket: handle.Token / turns,
	}}
	sent := c.clock.now()
	r := c.d.Renew(ctx, []*driver.Claim{&s.claim})[0]
	if errors.Is(r.Err, driver.ErrGone) {
		return fail(&LostError{Reason: Removed})
	}
	if r.Err != nil {
		return fail(r.Err)
	}
	c.mu.Lock()
	defer c.unlock()
	if c.closed {
		return fail(ErrClosed)
	}
	g, err := c.gate(l)
	if err != nil {
		return fail(err)
	}
	g.seats++
	s.gate, s.stage = g, held
	s.confirm(sent, c.trusted(sent, r.TTL))
	s.turnEnd = sent // its turns are over: the token is the one that was given
	h := &hold{seat: s, token: handle.Token, since: sent, refs: 1}
	s.add(h)
	c.renewals.fix(s)
	return newLease(ctx, h), nil
}
