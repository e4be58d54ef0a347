//go:build unix

package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The cost of waiting while nothing happens.

const (
	waiters   = 100
	holderTTL = time.Minute
)

func (b *bench) waiting() *measure {
	return &measure{
		key: "waiting", title: "100 waiters of one process on a held name", slow: true, each: b.idle + b.settle,
		about: "For " + b.idle.String() + ", one client holds the lock, and 100 goroutines that share another wait. Requests are what clients send; commands are " +
			"what the server counts, in Redis by INFO commandstats, those inside scripts included; both are compared with the target. " +
			"What keeps the holder's lease and the connections alive is counted. A library that does not renew, such as redsync, holds " +
			"its lock for a minute from the beginning.",
		columns: []column{{"commands", "commands/s", 1}, {"requests", "requests/s", 1}},
		rows:    b.arena.among(b.waitingOne, b.arena.contended...),
	}
}

func (b *bench) waitingOne(c contender) (sample, error) {
	ttl := defaultTTL
	if !c.renews {
		ttl = max(holderTTL, 2*b.idle)
	}
	name := b.name()
	holder, err := c.open(b.addr, ttl)
	if err != nil {
		return nil, err
	}
	defer holder.close()
	h, err := lockSurely(holder.mutex(name))
	if err != nil {
		return nil, err
	}
	defer h.Unlock() //nolint:errcheck // the server ends soon
	lib, err := c.open(b.addr, ttl)
	if err != nil {
		return nil, err
	}
	defer lib.close()
	stop := enqueue(lib, name, waiters)
	time.Sleep(b.settle)
	s, err := b.load(c, b.idle)
	return s, errors.Join(err, stop())
}

// enqueue lets goroutines wait for a lock, until the function that it returns is called.
func enqueue(lib library, name string, n int) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	got := make(chan error, n)
	for range n {
		done.Go(func() {
			_, err := lib.mutex(name).lock(ctx)
			if err == nil {
				err = errors.New("a waiter had the lock while it was held")
			} else if ctx.Err() != nil {
				err = nil
			}
			got <- err
		})
	}
	return func() error {
		cancel()
		done.Wait()
		close(got)
		var all []error
		for err := range got {
			all = append(all, err)
		}
		return errors.Join(all...)
	}
}

func (b *bench) queueing() *measure {
	return &measure{
		key: "queueing", title: "1,000 waiters of one process on a held name", slow: true, each: 3 * b.settle,
		about: "A process of its own, where one client holds the lock and goroutines that share another wait. Bytes are counted as " +
			"above, beyond what the process had with one waiter. The last row is what a goroutine takes up that waits for a channel and a " +
			"context, with no library: part of each of the others.",
		columns: []column{
			{"heap", "heap bytes/waiter", 0}, {"stack", "stack bytes/waiter", 0}, {"goroutines", "goroutines/waiter", 3},
		},
		rows: append(b.arena.among(b.queueingOne, ours, "redsync", "redislock", "rueidislock"), &row{
			name: bare, run: func() (sample, error) { return b.queueingOne(contender{name: bare}) },
		}),
	}
}

const bare = "a bare goroutine"

// A bareLibrary has no locks: everybody waits.
type bareLibrary struct{ never chan struct{} }

func (l bareLibrary) mutex(string) mutex { return l }
func (l bareLibrary) close()             {}

func (l bareLibrary) lock(ctx context.Context) (held, error) {
	select {
	case <-l.never:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *bench) queueingOne(c contender) (sample, error) {
	return each(&task{
		Role: "queue", Store: b.arena.key, Addr: b.addr, Contender: c.name, TTL: holderTTL, Name: b.name(), Size: leases, Warm: b.settle,
	})
}

// queueRole lets goroutines wait and reports their cost.
func queueRole(t *task, parent *lines) error {
	if t.Contender == bare {
		each, err := t.queue(bareLibrary{})
		return errors.Join(err, parent.say(each))
	}
	holder, err := t.open()
	if err != nil {
		return err
	}
	defer holder.close()
	lib, err := t.open()
	if err != nil {
		return err
	}
	defer lib.close()
	h, err := lockSurely(holder.mutex(t.Name))
	if err != nil {
		return err
	}
	each, err := t.queue(lib)
	if err := errors.Join(err, h.Unlock()); err != nil {
		return err
	}
	return parent.say(each)
}

// queue lets goroutines wait for a held lock, and returns how much each of them takes up.
func (t *task) queue(lib library) (footprint, error) {
	stop := enqueue(lib, t.Name, 1)
	time.Sleep(t.Warm)
	before := measureFootprint()
	stopAll := enqueue(lib, t.Name, t.Size)
	time.Sleep(t.Warm)
	after := measureFootprint()
	return after.per(t.Size, before), errors.Join(stop(), stopAll())
}
