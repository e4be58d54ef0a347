//go:build unix

package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/engine"
	_ "github.com/stilelock/stile/store/consul" // the stores that URLs can name
	_ "github.com/stilelock/stile/store/etcd"
	_ "github.com/stilelock/stile/store/mysql"
	_ "github.com/stilelock/stile/store/postgres"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/zookeeper"
)

// stileLocker is this project's own lock.
type stileLocker struct {
	client *stile.Client
	lockOf func(c *stile.Client, name string) *stile.Lock
	held   *stile.Lease
	heard  *atomic.Int64 // how often somebody has asked for its lock
}

// openStile returns a function that opens a store by its URL, for locks of one kind.
func openStile(lockOf func(c *stile.Client, name string) *stile.Lock) func(context.Context, string) (locker, error) {
	return func(ctx context.Context, url string) (locker, error) {
		l := &stileLocker{lockOf: lockOf, heard: new(atomic.Int64)}
		var err error
		l.client, err = stile.Open(ctx, url, &stile.Options{
			LockOptions: stile.LockOptions{TTL: session},
			Observer: func(e stile.Event) {
				if e.Kind == stile.EventAsked {
					l.heard.Add(1)
				}
			},
		})
		if err != nil {
			return nil, err
		}
		return l, nil
	}
}

func candidate(c *stile.Client, name string) *stile.Lock { return c.Candidate(name, "here") }

// permits returns the lock for n of the two permits of a name.
func permits(n int) func(c *stile.Client, name string) *stile.Lock {
	return func(c *stile.Client, name string) *stile.Lock { return c.Permit(name, n, 2) }
}

func (l *stileLocker) lock(ctx context.Context, name string) (string, error) {
	var err error
	if l.held, err = l.lockOf(l.client, name).Lock(ctx); err != nil {
		return "", err
	}
	return ticket(l.held), nil
}

func (l *stileLocker) try(ctx context.Context, name string) (string, bool, error) {
	lease, err := l.lockOf(l.client, name).TryLock(ctx)
	if errors.Is(err, stile.ErrHeld) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	l.held = lease
	return ticket(lease), true, nil
}

// ticket returns the number that the store gave the claim, which corresponds to the tokens of others. One ticket covers
// many of stile's tokens, one for each turn.
func ticket(l *stile.Lease) string { return strconv.FormatInt(l.Ticket()/engine.Turns, 10) }

func (l *stileLocker) unlock(context.Context) error { return l.held.Unlock() }

func (l *stileLocker) ask(ctx context.Context, name string) error {
	_, err := l.client.Ask(ctx, name, stile.BreakOptions{Head: true})
	return err
}

func (l *stileLocker) asks() int64 { return l.heard.Load() }

func (l *stileLocker) downgrade(ctx context.Context) error { return l.held.Downgrade(ctx) }

func (l *stileLocker) close() { l.client.Close() }
