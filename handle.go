package stile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
)

// A Handle names a claim that stays in the store without a process, so that another process can take it up. For example, a
// shell script locks in one command and unlocks in the next. The fields do not change within a major version. A program that
// has the handle can release the lock, so keep it secret.
type Handle struct {
	Name      string
	ID        string        // the claim's id; it makes the handle a secret
	Weight    int64         // the weight that the claim takes
	Capacity  int64         // permits of the name in all
	Ticket    int64         // the lease's
	Token     int64         // the lease's; 0 if the store has no fencing
	TTL       time.Duration // LockOptions.TTL
	LockDelay time.Duration // LockOptions.LockDelay
	MaxHold   time.Duration // the rest of LockOptions.MaxHold, which goes on with Attach; 0 means none
}

// Detach ends the lease in this process but leaves the claim in the store, for its whole ttl from now on. Client.Attach can
// take it up. In this process the lease counts as released. Detach fails for a joined lock, for a lock that was re-entered,
// for a reader's claim that other goroutines of this process share, and on a store that binds claims to a session, such as
// ZooKeeper.
func (l *Lease) Detach(ctx context.Context) (Handle, error) {
	return l.handle(ctx, "detach", func() (*driver.Claim, error) {
		claim, err := l.share.Detach(ctx)
		if err == nil {
			l.leak.Stop()
		}
		return claim, err
	})
}

// Handle names the claim of the lease, and the lease goes on. It is for the case that this process dies: its successor
// attaches the claim, with the same token, before the claim runs out. The successor must be sure that this process is dead,
// since both would trust the lease. If the lease was released meanwhile, Attach returns [ErrLost]. No other goroutine of this
// process gets the claim after this lease. A lease that cannot be detached has no handle.
func (l *Lease) Handle() (Handle, error) {
	return l.handle(context.Background(), "handle", func() (*driver.Claim, error) { return l.share.Pin() })
}

// handle returns the handle of a claim that leave leaves to another process.
func (l *Lease) handle(ctx context.Context, op string, leave func() (*driver.Claim, error)) (Handle, error) {
	if err := l.sole(ctx); err != nil {
		return Handle{}, wrapped(op, l.Name(), err)
	}
	if t := l.share.Traits(); t.InSession || t.OwnClient {
		return Handle{}, wrapped(op, l.Name(), fmt.Errorf("%w: on %s a claim ends with the session of its client", ErrUnsupported, t.Store))
	}
	claim, err := leave()
	if err != nil {
		return Handle{}, wrapped(op, l.Name(), err)
	}
	return Handle{
		Name: claim.Name, ID: claim.ID, Weight: claim.Weight, Capacity: claim.Capacity,
		Ticket: l.share.Ticket(), Token: l.share.Token(),
		TTL: claim.TTL, LockDelay: claim.Delay, MaxHold: l.share.MaxHold(),
	}, nil
}

// Attach takes up a claim that was detached, or whose process is dead. The lease has the same token as before, and the client
// renews it from now on. The error is [ErrLost] if the claim has run out.
func (c *Client) Attach(ctx context.Context, h Handle) (*Lease, error) {
	if err := c.ready(ctx); err != nil {
		return nil, wrapped("attach", h.Name, err)
	}
	l := c.lock(h.Name, h.Weight, h.Capacity)
	l.set(LockOptions{TTL: h.TTL, LockDelay: h.LockDelay, MaxHold: h.MaxHold})
	err := l.err
	if err == nil && (h.ID == "" || h.Ticket < engine.Turns || h.Token != 0 && h.Token != h.Ticket || h.Weight < 1 || h.Capacity < h.Weight) {
		err = errors.New("it was not made by Detach or Handle")
	}
	if err != nil {
		return nil, wrapped("attach", h.Name, fmt.Errorf("%w handle: %w", ErrInvalid, err))
	}
	if err := l.check(ctx); err != nil {
		return nil, wrapped("attach", h.Name, err)
	}
	share, err := c.keeper.Attach(ctx, &driver.Claim{
		Name: h.Name, ID: h.ID, Weight: h.Weight, Capacity: h.Capacity, TTL: h.TTL, Delay: h.LockDelay,
		Ticket: h.Ticket / engine.Turns,
	}, h.Ticket, h.Token != 0, h.MaxHold)
	if err != nil {
		return nil, wrapped("attach", h.Name, err)
	}
	return &Lease{share: share, parent: ctx}, nil
}
