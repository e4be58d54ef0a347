package stile

import (
	"context"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/record"
)

// A Queue has the holders and waiters of a name, as seen at some moment.
type Queue struct {
	Name    string
	Permits int64   // how many the name has; 0 for a mutex, or readers and writers
	Claims  []Claim // in the order in which they hold
}

// A Claim is one holder or waiter. Goroutines of one client with equal locks share one claim, except for permits.
type Claim struct {
	Ticket    int64 // the first of the tokens that its holder may have
	Weight    int64 // permits, or 1 for readers; 0 for an exclusive claim
	Holds     bool
	Left      bool          // released, and kept for a while by UnlockAfter
	Since     time.Duration // how long ago it entered the queue
	Remaining time.Duration // lease left; negative while only the lock-delay keeps others out; 0 if unknown
	TTL       time.Duration // its lease while it holds, after each renewal; 0 if that is not known
	Holder    Holder
}

// Show returns the queue of one name, which is empty if nobody uses it. The error is [ErrUnsupported] if the store cannot
// list its queues.
func (c *Client) Show(ctx context.Context, name string) (Queue, error) {
	return c.shown(ctx, "show", name)
}

// shown is Show under another operation's name.
func (c *Client) shown(ctx context.Context, op, name string) (Queue, error) {
	if err := c.checked(ctx, op, name); err != nil {
		return Queue{}, err
	}
	q, err := c.show(ctx, name)
	return q, wrapped(op, name, err)
}

func (c *Client) show(ctx context.Context, name string) (Queue, error) {
	list, err := c.list(ctx, &driver.Query{Name: name})
	if err != nil || len(list) == 0 {
		return Queue{Name: name}, err
	}
	return list[0], nil
}

// checked returns the error of an impossible operation: without a client, without a context, or on an invalid name.
func (c *Client) checked(ctx context.Context, op, name string) error {
	err := c.ready(ctx)
	if bad := driver.CheckName(name); err == nil && bad != nil {
		err = fmt.Errorf("%w name: %w", ErrInvalid, bad)
	}
	return wrapped(op, name, err)
}

// List returns the queues of all names in use that begin with the prefix, in the order of their bytes.
func (c *Client) List(ctx context.Context, prefix string) ([]Queue, error) {
	list, err := c.list(ctx, &driver.Query{Prefix: prefix})
	return list, wrapped("list", prefix, err)
}

func (c *Client) list(ctx context.Context, q *driver.Query) ([]Queue, error) {
	var listings []driver.Listing
	err := c.patiently(ctx, func(ctx context.Context) (err error) {
		lister, ok := c.d.(driver.Lister)
		if !ok {
			return fmt.Errorf("%w: %s cannot list its queues", ErrUnsupported, c.traits.Store)
		}
		listings, err = lister.List(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	list := make([]Queue, len(listings))
	for i, l := range listings {
		list[i] = Queue{Name: l.Name, Permits: unlessAll(l.Capacity)}
		for _, s := range l.Claims {
			list[i].Claims = append(list[i].Claims, claimOf(s))
		}
	}
	return list, nil
}

func claimOf(s driver.ClaimInfo) Claim {
	return Claim{
		Ticket: s.Ticket * engine.Turns, Weight: unlessAll(s.Weight), Holds: s.Holds, Left: s.Left,
		Since: s.Since, Remaining: s.Remaining, TTL: record.TTL(s.Record), Holder: holderOf(record.With(s.Record, s.Principal)),
	}
}

func unlessAll(n int64) int64 {
	if n == driver.All {
		return 0
	}
	return n
}

// BreakOptions select a claim, by Ticket or Head, and give the reason. With neither or both, the error is [ErrInvalid]: an
// empty variable must not remove another program's claim.
type BreakOptions struct {
	Ticket int64  // the claim that has this Claim.Ticket, or a lease with this Lease.Ticket
	Head   bool   // the claim at the head, whoever has it
	Reason string // why; with the program's name and Owner, the store carries it to the claim's client if it can: see LostError.By
}

// Break removes a claim by hand, even another client's, and returns it in its last state. The next in the queue may hold the
// lock at once, while the one that held it is still at work. Where Traits.HearsBreak is true, that one learns of it at once, and
// otherwise at its next renewal, a third of its TTL later at most. The error is [ErrGone] if there is no such claim.
//
// If the store reports breaks, a waiter whose claim is removed ends with [ErrLost]. Otherwise it enters again at the tail.
func (c *Client) Break(ctx context.Context, name string, o BreakOptions) (Claim, error) {
	return c.breakChosen(ctx, "break", name, o, false)
}

// Ask asks the holder for its lock, and removes nothing. Its [Observer] gets [EventAsked] at the next renewal or, in
// ZooKeeper, at once. The options select the claim as in Break. The error is [ErrUnsupported] if the store cannot do this.
func (c *Client) Ask(ctx context.Context, name string, o BreakOptions) (Claim, error) {
	return c.breakChosen(ctx, "ask for", name, o, true)
}

// breakChosen asks for a claim by hand, or removes it.
func (c *Client) breakChosen(ctx context.Context, op, name string, o BreakOptions, ask bool) (Claim, error) {
	if err := c.checked(ctx, op, name); err != nil {
		return Claim{}, err
	}
	if o.Head == (o.Ticket != 0) || o.Ticket != 0 && o.Ticket < engine.Turns {
		return Claim{}, wrapped(op, name, fmt.Errorf("%w ticket %d: name a claim by its ticket, or the head", ErrInvalid, o.Ticket))
	}
	text, err := record.Write(c.opts.Owner, o.Reason, "", 0)
	if err != nil {
		return Claim{}, wrapped(op, name, fmt.Errorf("%w reason: %w", ErrInvalid, err))
	}
	return c.breaks(ctx, op, &driver.BreakRequest{Name: name, Ticket: o.Ticket / engine.Turns, Ask: ask, Record: text})
}

func (c *Client) breaks(ctx context.Context, op string, b *driver.BreakRequest) (Claim, error) {
	var s driver.ClaimInfo
	err := c.patiently(ctx, func(ctx context.Context) (err error) {
		breaker, ok := c.d.(driver.Breaker)
		if !ok || b.Ask && !c.Traits().Asks {
			return fmt.Errorf("%w: %s cannot %s a claim", ErrUnsupported, c.traits.Store, op)
		}
		s, err = breaker.Break(ctx, b)
		return err
	})
	return claimOf(s), wrapped(op, b.Name, err)
}
