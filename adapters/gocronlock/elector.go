package gocronlock

import (
	"context"
	"fmt"

	"github.com/go-co-op/gocron/v2"
	"github.com/stilelock/stile"
)

// An Elector is a [gocron.Elector]: of all machines whose electors have the same name, one leads, and runs the jobs. Make it
// with [NewElector].
//
//	stands ──► leads ──► stands, when its lease is lost
//	   └─────────┴──────► closed
//
// It has no goroutine. While it stands, each due job asks for the lead; while it leads, its client renews the lease.
type Elector struct {
	name string
	lock *stile.Lock
	term chan *stile.Lease // holds one: nil while it stands. Closed when it is closed.
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an elector for a name. [stile.Client.Leader] returns the leader's value, such as the machine's
// address.
func NewElector(client *stile.Client, name, value string) *Elector {
	e := &Elector{name: name, lock: client.Candidate(name, value), term: make(chan *stile.Lease, 1)}
	e.term <- nil
	return e
}

// IsLeader returns nil if this machine leads, or leads from now on because no other does. Otherwise the error is
// [stile.ErrHeld], which names the leader, or says why the store could not be asked. After Close it is [stile.ErrClosed].
func (e *Elector) IsLeader(ctx context.Context) error {
	_, err := e.Lease(ctx)
	return err
}

// Lease is IsLeader, and returns the lease of the term. A long job ends with the lease's context, and sends its token with
// its writes.
func (e *Elector) Lease(ctx context.Context) (*stile.Lease, error) {
	lease, err := e.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("gocronlock: election %q: %w", e.name, err)
	}
	if lease == nil || lease.Check() != nil {
		if lease != nil {
			_ = lease.Unlock() // it is lost, and its observers know
		}
		if lease, err = e.lock.TryLock(ctx); err != nil {
			lease, err = nil, fmt.Errorf("gocronlock: %w", err)
		}
	}
	e.term <- lease
	return lease, err
}

// take gets the term for one job at a time: if two asked the store, one would find the lock held by the other.
func (e *Elector) take(ctx context.Context) (*stile.Lease, error) {
	select {
	case lease, open := <-e.term:
		if !open {
			return nil, stile.ErrClosed
		}
		return lease, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends the elector, and resigns if it leads, so that another machine leads at once. Call it after the scheduler has
// shut down, since its runs would go on. Closing twice is harmless.
func (e *Elector) Close() error {
	lease, open := <-e.term
	if !open {
		return nil
	}
	close(e.term)
	if lease == nil {
		return nil
	}
	if err := lease.Unlock(); err != nil {
		return fmt.Errorf("gocronlock: %w", err)
	}
	return nil
}
