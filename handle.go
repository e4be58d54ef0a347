package stile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// A Handle names a claim that stays in the store while no process looks after it, so that another can take it up: a
// shell script locks in one command and unlocks in the next. Its fields stay what they are within a major version.
// Whoever has it can release the lock; keep it secret.
type Handle struct {
	Name      string
	ID        string        // the claim's, which is what makes it a secret
	Weight    int64         // what the claim takes
	Capacity  int64         // of so much
	Token     int64         // the lease's
	TTL       time.Duration // LockOptions.TTL
	LockDelay time.Duration // LockOptions.LockDelay
}

// Detach ends the lease here but leaves the claim in the store, with its whole ttl from now on unless it is attached
// again. The lease is released, as far as this process is concerned. A joined lock, one that was re-entered, or a
// reader's that others of this process share cannot be detached, nor can one on a store that binds claims to a
// session, such as ZooKeeper.
func (l *Lease) Detach(ctx context.Context) (Handle, error) {
	if l.hold == nil {
		return Handle{}, wrapped("detach", l.Name(), fmt.Errorf("%w: a joined lock cannot be detached", ErrUnsupported))
	}
	if t := &l.c.traits; t.Bound || t.Pinned {
		return Handle{}, wrapped("detach", l.Name(), fmt.Errorf("%w: on %s a claim ends with the session of its client", ErrUnsupported, t.Store))
	}
	if err := l.Check(); err != nil {
		return Handle{}, wrapped("detach", l.Name(), errors.Unwrap(err))
	}
	claim, err := l.hold.Detach(ctx)
	if errors.Is(err, claims.ErrShared) {
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return Handle{}, wrapped("detach", l.Name(), err)
	}
	l.done.Store(true)
	l.leak.Stop()
	return Handle{
		Name: claim.Name, ID: claim.ID, Weight: claim.Weight, Capacity: claim.Capacity, Token: l.hold.Token(),
		TTL: claim.TTL, LockDelay: claim.Delay,
	}, nil
}

// Attach takes a detached claim up again: the lease has the token that it had, and is renewed from now on. The error is
// [ErrLost] if the claim has run out.
func (c *Client) Attach(ctx context.Context, h Handle) (*Lease, error) {
	l := c.lock(h.Name, h.Weight, h.Capacity)
	l.set(LockOptions{TTL: h.TTL, LockDelay: h.LockDelay})
	err := l.err
	if err == nil && (h.ID == "" || h.Token < claims.Turns || h.Weight < 1 || h.Capacity < h.Weight) {
		err = errors.New("it was not made by Detach")
	}
	if err != nil {
		return nil, wrapped("attach", h.Name, fmt.Errorf("%w handle: %w", ErrInvalid, err))
	}
	if err := l.check(); err != nil {
		return nil, wrapped("attach", h.Name, err)
	}
	hold, err := c.keeper.Attach(ctx, &driver.Claim{
		Name: h.Name, ID: h.ID, Weight: h.Weight, Capacity: h.Capacity, TTL: h.TTL, Delay: h.LockDelay,
		Ticket: h.Token / claims.Turns,
	}, h.Token)
	if err != nil {
		return nil, wrapped("attach", h.Name, err)
	}
	return newLease(ctx, c, hold), nil
}
