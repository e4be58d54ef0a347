//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stilelock/stile"
)

// A library is one client of a lock library, connected to the server.
type library interface {
	// mutex returns the lock of a name, for one goroutine.
	mutex(name string) mutex
	close()
}

// A mutex is a lock of one library. It waits until it holds the lock or ctx ends.
type mutex interface {
	lock(ctx context.Context) (held, error)
}

// A held lock is released by Unlock.
type held interface {
	Unlock() error
}

// stiles returns stile's own contenders on a store.
func stiles(scheme string, inside ...string) []contender {
	return stilesAt(func(addr string) string { return scheme + "://" + addr }, inside)
}

func stilesAt(url func(addr string) string, inside []string) []contender {
	open := func(linger, turn time.Duration) func(string, time.Duration) (library, error) {
		return func(addr string, ttl time.Duration) (library, error) { return openStile(url(addr), ttl, linger, turn) }
	}
	return []contender{
		{ours, "defaults", true, inside, open(0, 0)},
		{noTurns, "Turn 1ns, so that every hand-over is through the store; otherwise defaults", true, inside, open(0, 1)},
		{lingers, fmt.Sprintf("Linger %v, otherwise defaults", linger), true, inside, open(linger, 0)},
	}
}

// A contender is a library in one configuration.
type contender struct {
	name   string
	about  string
	renews bool                                                  // it renews held locks by itself
	inside []string                                              // commands that only its scripts run, so they are not requests
	open   func(addr string, ttl time.Duration) (library, error) // nil for a library for Java
}

const (
	ours    = "stile"
	noTurns = "stile, no turns"
	lingers = "stile, Linger"

	defaultTTL = 15 * time.Second
	linger     = 10 * time.Millisecond
	fastDelay  = 5 * time.Millisecond
	slowDelay  = 100 * time.Millisecond
	givenUp    = 5 * time.Second
)

// lockSurely waits for a lock. A call that takes far too long is cancelled and repeated, since a library may miss its
// wakeup. After success the context is left open, since with some libraries the lock only lasts as long as its context.
func lockSurely(m mutex) (held, error) {
	for {
		ctx, cancel := context.WithCancel(context.Background())
		late := time.AfterFunc(givenUp, cancel)
		h, err := m.lock(ctx)
		if late.Stop() || err == nil {
			return h, err
		}
	}
}

func openStile(url string, ttl, linger, turn time.Duration) (library, error) {
	c, err := stile.Open(context.Background(), url, &stile.Options{
		LockOptions: stile.LockOptions{TTL: ttl, Linger: linger}, Turn: turn,
	})
	if err != nil {
		return nil, err
	}
	return stileLibrary{c}, nil
}

type stileLibrary struct{ c *stile.Client }

func (l stileLibrary) mutex(name string) mutex { return stileMutex{l.c.Mutex(name)} }
func (l stileLibrary) close()                  { l.c.Close() }

type stileMutex struct{ l *stile.Lock }

func (m stileMutex) lock(ctx context.Context) (held, error) { return m.l.Lock(ctx) }

// A brokenMutex is a mutex that could not be made.
type brokenMutex struct{ err error }

func (m brokenMutex) lock(context.Context) (held, error) { return nil, m.err }
