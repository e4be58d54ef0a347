package stile

import (
	"context"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// A Queue is who holds a name and who waits for it, as seen at some moment.
type Queue struct {
	Name    string
	Permits int64   // how many the name has; 0 for a mutex, or readers and writers
	Claims  []Claim // in the order in which they hold
}

// A Claim is one holder or waiter. Goroutines of one client whose locks are alike share one, but for permits.
type Claim struct {
	Ticket    int64 // the first of the tokens that its holder may give out
	Weight    int64 // permits, or 1 for readers; 0 for a claim that shares with nobody
	Holds     bool
	Left      bool          // released, and kept for a while by UnlockAfter
	Since     time.Duration // how long ago it entered the queue
	Remaining time.Duration // lease left; negative while only the lock-delay keeps others out; 0 if the store does not tell
	Holder    Holder
}

// Show returns the queue of one name, which is empty if nobody uses it. The error is [ErrUnsupported] if the store
// cannot tell.
func (c *Client) Show(ctx context.Context, name string) (Queue, error) {
	return c.show(ctx, "show", name)
}

func (c *Client) show(ctx context.Context, op, name string) (Queue, error) {
	if err := checked(op, name); err != nil {
		return Queue{}, err
	}
	list, err := c.list(ctx, &driver.Query{Name: name})
	if err != nil || len(list) == 0 {
		return Queue{Name: name}, wrapped(op, name, err)
	}
	return list[0], nil
}

// checked is the error of an operation on a text that cannot be a name.
func checked(op, name string) error {
	if err := driver.CheckName(name); err != nil {
		return &Error{Op: op, Name: name, Err: fmt.Errorf("%w name: %w", ErrInvalid, err)}
	}
	return nil
}

// List returns the queues of all names in use that begin with the prefix, in the order of their bytes.
func (c *Client) List(ctx context.Context, prefix string) ([]Queue, error) {
	list, err := c.list(ctx, &driver.Query{Prefix: prefix})
	return list, wrapped("list", prefix, err)
}

func (c *Client) list(ctx context.Context, q *driver.Query) ([]Queue, error) {
	lister, ok := c.d.(driver.Lister)
	if !ok {
		return nil, fmt.Errorf("%w: %s cannot list its queues", ErrUnsupported, c.traits.Store)
	}
	listings, err := lister.List(ctx, q)
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

func claimOf(s driver.Standing) Claim {
	return Claim{
		Ticket: s.Ticket * claims.Turns, Weight: unlessAll(s.Weight), Holds: s.Holds, Left: s.Left,
		Since: s.Since, Remaining: s.Remaining, Holder: holderOf(s.Record),
	}
}

func unlessAll(n int64) int64 {
	if n == driver.All {
		return 0
	}
	return n
}

// Break removes a claim by hand, whoever it belongs to: the one whose tokens include the ticket, or, if ticket is 0, the
// one at the head. It returns the claim as it stood. Its holder is told at its next renewal, so others may hold the lock
// while it is still at work. The error is [ErrGone] if there is no such claim.
func (c *Client) Break(ctx context.Context, name string, ticket int64) (Claim, error) {
	if err := checked("break", name); err != nil {
		return Claim{}, err
	}
	breaker, ok := c.d.(driver.Breaker)
	if !ok {
		return Claim{}, wrapped("break", name, fmt.Errorf("%w: %s cannot remove claims", ErrUnsupported, c.traits.Store))
	}
	if ticket != 0 && ticket < claims.Turns {
		return Claim{}, wrapped("break", name, fmt.Errorf("%w ticket %d", ErrInvalid, ticket))
	}
	s, err := breaker.Break(ctx, &driver.Breakage{Name: name, Ticket: ticket / claims.Turns})
	if err != nil {
		return Claim{}, wrapped("break", name, err)
	}
	return claimOf(s), nil
}
