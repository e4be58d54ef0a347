package stile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/record"
)

// A Lock is a part of a name's capacity that can be held, or several such parts together. A Lock itself holds nothing and
// costs nothing to make. Many goroutines may use it at once. Make one with [Client.Mutex] and its siblings, or with [Join].
// The calls that take the lock report invalid names and counts.
type Lock struct {
	c     *Client
	want  claims.Want // the want that the keeper of claims gets
	value string
	opts  LockOptions
	err   error   // why it can never be held, with any options
	wrong error   // the mistake in its options, or why its leases could not be renewed in time
	parts []*Lock // of a joined lock, in the order in which they are taken
}

// Mutex returns a lock that only one holder at a time can have.
func (c *Client) Mutex(name string) *Lock { return c.lock(name, driver.All, driver.All) }

// Writer returns the side of a name that excludes readers and other writers. It is the same lock as Mutex.
func (c *Client) Writer(name string) *Lock { return c.lock(name, driver.All, driver.All) }

// Reader returns the side of a name that readers share. A waiting writer stops the readers that come after it.
func (c *Client) Reader(name string) *Lock { return c.lock(name, 1, driver.All) }

// Permit takes n of a name's permits, all or none; of is the number of permits that the name has. All programs must give the
// same number for a name. The store forgets it when nobody uses the name any more.
func (c *Client) Permit(name string, n, of int) *Lock {
	l := c.lock(name, int64(n), int64(of))
	switch {
	case l.err != nil:
	case of < 1 || int64(of) >= driver.All:
		l.err = fmt.Errorf("%w number of permits %d: it must be from 1 to %d", ErrInvalid, of, driver.All-1)
	case n < 1 || n > of:
		l.err = fmt.Errorf("%w permits %d: it must be from 1 to %d", ErrInvalid, n, of)
	}
	return l
}

func (c *Client) lock(name string, weight, of int64) *Lock {
	if err := c.usable(); err != nil {
		return &Lock{err: err}
	}
	l := c.plain
	l.want.Name, l.want.Terms = name, l.want.Of(weight, of)
	l.wrong = cmp.Or(l.wrong, l.want.Check(&c.traits))
	c.keeper.Place(&l.want)
	if err := driver.CheckName(name); err != nil {
		l.err = fmt.Errorf("%w name: %w", ErrInvalid, err)
	}
	return &l
}

// With returns the same lock with other options. A zero field keeps its present value; [Lock.WithOnly] resets it. It has no
// effect on a joined lock, whose parts have options of their own.
func (l *Lock) With(o LockOptions) *Lock { return l.WithOnly(o.over(cmp.Or(l, &Lock{}).opts)) }

// WithOnly returns the same lock with only these options: a zero field means its default, even if the lock and its client
// have another value. Begin with [Lock.Options].
func (l *Lock) WithOnly(o LockOptions) *Lock {
	with := *cmp.Or(l, &Lock{})
	pick(&o.TTL, defaultTTL)
	with.set(o)
	return &with
}

// Options returns the lock's options, including its client's. For a joined lock they have no meaning.
func (l *Lock) Options() LockOptions { return cmp.Or(l, &Lock{}).opts }

// set gives the lock these options, and checks them here, not at each call that takes the lock.
func (l *Lock) set(o LockOptions) {
	l.opts = o
	terms := *cmp.Or(l.want.Terms, &protocol.Terms{Weight: driver.All, Capacity: driver.All})
	terms.TTL, terms.Delay, terms.Owner, terms.Reclaim = o.TTL, o.LockDelay, o.Owner, o.Reclaim
	l.want.Terms, l.want.Linger, l.want.MaxHold = &terms, o.Linger, o.MaxHold
	text, err := record.Write(o.Owner, o.Reason, l.value, o.TTL)
	if terms.Record, l.wrong = text, nil; err != nil {
		l.wrong = fmt.Errorf("%w holder: %w", ErrInvalid, err)
	} else if l.c != nil {
		l.wrong = cmp.Or(l.want.Check(&l.c.traits), claims.LeavesTime(o.TTL, l.c.opts.Margin, l.c.opts.Drift))
	}
}

// Name returns the lock's name; for a joined lock, the name of its first part.
func (l *Lock) Name() string {
	switch {
	case l == nil:
		return ""
	case len(l.parts) > 0:
		return l.parts[0].want.Name
	}
	return l.want.Name
}

// Do takes the lock, runs f while it holds the lock, and releases it. The context of f carries the lease (see [FromContext])
// and ends with cause [ErrLost] as soon as the lease can no longer be trusted.
//
// The error is the error of f, or the reason why the lock could not be taken. It is [ErrLost], even if f returned nil, when
// the lease was lost before f returned: others may have been at work at the same time. A release of unknown outcome is no
// error, since f ran as it should and the lease runs out; observers get an event.
func (l *Lock) Do(ctx context.Context, f func(context.Context) error) error {
	if f == nil {
		return wrapped("lock", l.Name(), fmt.Errorf("%w function: it is nil", ErrInvalid))
	}
	lease, err := l.acquire(ctx, "lock", false, nil)
	if err != nil {
		return err
	}
	work, cancel := lease.attach(ctx)
	defer cancel(context.Canceled)
	var failed error
	defer func() { lease.Unlock() }() //nolint:errcheck // only for a panic of f: the second call is harmless
	failed = f(work)
	if err := lease.Unlock(); errors.Is(err, ErrLost) && !errors.Is(failed, ErrLost) {
		return errors.Join(failed, err)
	}
	return failed
}

// Lock waits until it holds the lock, or ctx ends. Clients hold in the order in which they arrived. So do the goroutines of a
// client, which take turns while it is the client's turn; see Options.Turn. Release the lease with Unlock, whatever happens
// to ctx.
//
// An error is an [*Error]; see the Err variables for the reasons inside. If ctx ends, the reason is the cause of ctx.
func (l *Lock) Lock(ctx context.Context) (*Lease, error) { return l.take(ctx, "lock", false) }

// TryLock takes the lock if it need not wait. Otherwise the error is [ErrHeld], with a [*HeldError], and nothing stays in the
// store.
func (l *Lock) TryLock(ctx context.Context) (*Lease, error) { return l.take(ctx, "try", true) }

func (l *Lock) take(ctx context.Context, op string, try bool) (*Lease, error) {
	lease, err := l.acquire(ctx, op, try, nil)
	if err != nil {
		return nil, err
	}
	lease.guardLeak(3)
	return lease, nil
}

func (l *Lock) acquire(ctx context.Context, op string, try bool, outer *Lease) (*Lease, error) {
	if l == nil {
		l = &Lock{}
	}
	if len(l.parts) > 0 {
		return l.acquireAll(ctx, op, try)
	}
	name, err := l.want.Name, l.check(ctx) // a waiter need not keep the lock itself in memory
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, wrapped(op, name, err)
	}
	var share *claims.Share
	if same, has := cmp.Or(outer, FromContext(ctx)).carried(l.c, name); same != nil {
		share, err = same.Reenter(&l.want, l.opts.Reentrant)
	} else {
		share, err = l.c.keeper.Acquire(ctx, &l.want, try, has...)
	}
	if err != nil {
		return nil, wrapped(op, name, err)
	}
	return &Lease{share: share, parent: ctx}, nil
}

// check returns an error if the lock can never be held.
func (l *Lock) check(ctx context.Context) error {
	switch {
	case l.err != nil:
		return l.err
	case l.c == nil:
		return fmt.Errorf("%w lock: make one with Client.Mutex or its siblings", ErrInvalid)
	case ctx == nil:
		return errNoContext
	}
	return l.wrong
}

// LockWithin waits for at most the given time, then fails with ErrHeld, which names the holder, or ErrUnreachable.
func (l *Lock) LockWithin(ctx context.Context, most time.Duration) (*Lease, error) {
	if most <= 0 {
		return l.take(ctx, "try", true)
	}
	if ctx == nil {
		return nil, wrapped("lock", l.Name(), errNoContext)
	}
	tooLong := errors.New("waited " + most.String())
	lease, err := claims.Within(ctx, most, tooLong, func(wctx context.Context, try bool) (*Lease, error) {
		return l.acquire(wctx, "lock", try, nil)
	})
	if err == nil {
		lease.parent = ctx
		lease.guardLeak(2)
		return lease, nil
	}
	gave, ok := errors.AsType[gaveUpError](explain(err))
	if !ok || !errors.Is(gave.Cause, tooLong) {
		return nil, err
	}
	name := l.Name()
	if e, ok := errors.AsType[*Error](err); ok {
		name = e.Name // the part that was not available
	}
	if gave.Held != nil && gave.Held.By == "" { // the store does not name the holder to waiters
		gave.Held = gave.Holder(ctx)
	}
	return nil, &Error{Op: "lock", Name: name, Err: fmt.Errorf("not had after %v: %w", most, gave.why())}
}
