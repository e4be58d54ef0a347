package gooselock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3/lock"
	"github.com/stilelock/stile"
)

// A Locker is a [lock.Locker]. It is made by [New], and serves one provider or several.
//
//	free ──► asks ──► locked ──► free
//	  ▲        │
//	  └────────┘ the lock could not be had
//
// Of several providers in one process one is served at a time, and it stays served until it unlocks, even if its lease is lost: so
// one never unlocks what another has locked.
type Locker struct {
	lock *stile.Lock
	name string
	free chan struct{}   // holds one in state free
	held chan *migration // holds one in state locked
}

var _ lock.Locker = (*Locker)(nil)

// A migration is one provider's work while it has the lock.
type migration struct {
	lease  *stile.Lease
	unbind func() bool // of the context of Locker.Context
}

// New returns a locker by a client, which the caller closes when the provider has done its work. All programs that migrate the
// same database use the same name.
func New(client *stile.Client, name string) *Locker {
	l := &Locker{lock: client.Mutex(name), name: name, free: make(chan struct{}, 1), held: make(chan *migration, 1)}
	l.free <- struct{}{}
	return l
}

// Lock waits for the lock, until ctx ends. It does not use the database.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	select {
	case <-l.free:
	case <-ctx.Done():
		return fmt.Errorf("gooselock: lock %q: %w", l.name, context.Cause(ctx))
	}
	lease, err := l.lock.Lock(ctx)
	if err != nil {
		l.free <- struct{}{}
		return fmt.Errorf("gooselock: %w", err)
	}
	m := &migration{lease, func() bool { return true }}
	if cancel, ok := ctx.Value(key{}).(context.CancelCauseFunc); ok {
		work := lease.Context()
		m.unbind = context.AfterFunc(work, func() { cancel(context.Cause(work)) })
	}
	l.held <- m
	return nil
}

// Unlock releases the lock. The error is [stile.ErrLost] if the lease was lost before, so that another may have migrated at the
// same time, and [stile.ErrReleased] if the lock was not taken. A release that the store did not answer is no error: the migration
// was done, and the lease runs out.
func (l *Locker) Unlock(context.Context, *sql.DB) error {
	select {
	case m := <-l.held:
		m.unbind()
		err := m.lease.Unlock()
		l.free <- struct{}{}
		if errors.Is(err, stile.ErrLost) {
			return fmt.Errorf("gooselock: %w", err)
		}
		return nil
	default:
		return fmt.Errorf("gooselock: unlock %q: it is not locked: %w", l.name, stile.ErrReleased)
	}
}

// Lease returns the lease under which a provider migrates here, or nil. A migration in Go sends the lease's token with what it
// writes elsewhere.
func (l *Locker) Lease() *stile.Lease {
	select {
	case m := <-l.held:
		l.held <- m
		return m.lease
	default:
		return nil
	}
}

// Context returns a context for one call of a provider, which ends when the lease is lost under which the call migrates. A
// migration in a transaction is then undone, and goose begins no other.
func (l *Locker) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, key{}, cancel), func() { cancel(context.Canceled) }
}

type key struct{}
