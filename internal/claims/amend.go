package claims

import (
	"context"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/record"
)

// A change of a claim is under way until the store answers a renewal that carries it, even if its caller no longer waits.
type change struct {
	amendment *driver.Amendment
	answer    chan protocol.Verdict // has room for one
	settled   chan struct{}         // closed after the answer
}

// Downgrade makes a writer's claim a reader's. From the call on, this client treats the hold as a reader's, whatever the
// error. After a [*GaveUp] the client goes on to ask the store for the change until it answers.
func (s *Share) Downgrade(ctx context.Context) error {
	return s.change(ctx, func(is *protocol.Terms) (a driver.Amendment, err error) {
		switch {
		case is.Capacity != driver.All:
			return a, fmt.Errorf("%w: permits have no writer", driver.ErrUnsupported)
		case !s.hold.c.n.shard.k.traits.Shared:
			return a, fmt.Errorf("%w: %s has no readers", driver.ErrUnsupported, s.hold.c.n.shard.k.traits.Store)
		}
		return driver.Amendment{Weight: 1}, nil
	})
}

// Proclaim changes the value in the record of a claim that holds alone. After a [*GaveUp] the client goes on to ask the
// store for the change until it answers.
func (s *Share) Proclaim(ctx context.Context, value string) error {
	return s.change(ctx, func(is *protocol.Terms) (a driver.Amendment, err error) {
		if is.Weight != driver.All {
			return a, fmt.Errorf("%w: others hold it too; only one who holds alone leads", driver.ErrUnsupported)
		}
		if a.Record, err = record.Change(is.Record, value); err != nil {
			return a, fmt.Errorf("%w value: %w", ErrInvalid, err)
		}
		return a, nil
	})
}

// change changes the claim of the hold by a function of its terms.
func (s *Share) change(ctx context.Context, what func(is *protocol.Terms) (driver.Amendment, error)) error {
	if t := &s.hold.c.n.shard.k.traits; !t.Amends {
		return fmt.Errorf("%w: %s cannot change a claim that holds", driver.ErrUnsupported, t.Store)
	}
	for known := false; ; known = true {
		v, err := s.amend(ctx, what)
		if err != nil {
			return err
		}
		other, differs := errors.AsType[*driver.RecordError](v.Err)
		if v.Code != protocol.Refused || !differs || known {
			return s.amended(&v)
		}
		s.hold.c.note(other.Have) // the claim was attached, and its record was not known here
	}
}

// amend changes the claim once, after any change under way.
func (s *Share) amend(ctx context.Context, what func(*protocol.Terms) (driver.Amendment, error)) (protocol.Verdict, error) {
	for {
		ch, begun, v, err := s.begin(what)
		if err != nil || ch == nil {
			return v, err
		}
		ended := ch.settled
		select {
		case <-ended:
		case <-ctx.Done():
			return v, &GaveUp{Cause: context.Cause(ctx)}
		}
		if begun {
			return <-ch.answer, nil
		}
	}
}

// begin starts a change in the engine, or returns the change under way. Without either, the verdict or the error gives the
// reason.
func (s *Share) begin(
	what func(*protocol.Terms) (driver.Amendment, error),
) (ch *change, begun bool, v protocol.Verdict, err error) {
	h := s.hold
	n := h.c.n
	n.shard.mu.Lock()
	if s.over.Load() != nil {
		n.shard.mu.Unlock()
		return nil, false, protocol.Verdict{Code: protocol.Lost}, nil
	}
	if r := h.rare.Load(); r != nil && r.change != nil {
		ch = r.change
		n.shard.mu.Unlock()
		return ch, false, v, nil
	}
	is := s.Terms()
	a, err := what(is)
	if err != nil || a.Weight == is.Weight && a.Weight != 0 { // it is a reader already
		n.shard.mu.Unlock()
		return nil, false, protocol.Verdict{Code: protocol.OK}, err
	}
	ch = &change{amendment: &a, answer: make(chan protocol.Verdict, 1), settled: make(chan struct{})}
	h.rareLocked().change = ch // before the engine sends the renewal with it
	now := n.enterEvent(n.shard.k.clock.now())
	if v = n.engine.Amend(now, h.slot, a.Weight != 0); v.Code == protocol.Pending && a.Weight != 0 {
		h.c.lighter.Store(true)
	}
	if v.Code != protocol.Pending {
		h.rareLocked().change = nil
		ch = nil
	}
	var t todo
	n.finishLocked(now, &t)
	n.shard.mu.Unlock()
	t.do()
	return ch, true, v, nil
}

// amended returns the error for a verdict on a change.
func (s *Share) amended(v *protocol.Verdict) error {
	n := s.hold.c.n
	n.shard.mu.Lock() // the end of the hold, if any, is complete by then
	over := s.over.Load()
	n.shard.mu.Unlock()
	if v.Code == protocol.Lost && over != nil {
		return over.err
	}
	return n.shard.k.errorOf(v)
}

// settleLocked ends the change of a claim. If the verdict is OK, the claim has its new terms.
func (h *Hold) settleLocked(v protocol.Verdict) {
	ch := h.rareLocked().change
	h.rareLocked().change = nil
	if v.Code == protocol.OK {
		next := *h.c.terms.Load()
		if ch.amendment.Weight != 0 {
			next.Weight = min(next.Weight, ch.amendment.Weight)
		}
		if ch.amendment.Record != "" {
			next.Record = ch.amendment.Record
		}
		h.c.terms.Store(&next)
	}
	ch.answer <- v
	close(ch.settled)
}

// note notes the record that the store has for a claim.
func (c *claim) note(record string) {
	c.n.shard.mu.Lock()
	defer c.n.shard.mu.Unlock()
	next := *c.terms.Load()
	next.Record = record
	c.terms.Store(&next)
}
