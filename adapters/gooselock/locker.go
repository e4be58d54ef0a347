package gooselock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3/lock"
	"github.com/stilelock/stile"
)

// A Locker is a [lock.Locker]. Make it with [New]. It serves one provider or several.
//
//	free ──► asks ──► locked ──► free
//	  ▲        │
//	  └────────┘ the lock could not be had
//
// Several providers of one process take turns. A provider keeps its turn until it unlocks, even if its lease is lost, so one
// never unlocks another's lock.
type Locker struct {
	lock *stile.Lock
	name string
	free chan struct{}   // holds one in state free
	held chan *migration // holds one in state locked
}

var _ lock.Locker = (*Locker)(nil)

// A migration is one provider's work under the lock.
type migration struct {
	lease  *stile.Lease
	unbind func() bool // releases the context of Locker.Context
}

// New returns a locker over a client. The caller closes the client when the provider has done its work. All programs that
// migrate the same database use the same name.
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

// Unlock releases the lock. The error is [stile.ErrLost] if the lease was lost before, so that another may have migrated at
// the same time, and [stile.ErrReleased] if the lock was not taken. A release without an answer of the store is no error:
// the migration was done, and the lease runs out.
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

// Lease returns the lease under which a provider migrates here, or nil. A migration in Go sends the lease's token with its
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

// Context returns a context for one call of a provider. It ends when the call's lease is lost. A migration in a transaction
// is then undone, and goose begins no other.
func (l *Locker) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, key{}, cancel), func() { cancel(context.Canceled) }
}

type key struct{}
