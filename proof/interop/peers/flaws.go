//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A flaw is a known bug of a library, played with the library and in the same way with stile.
type flaw struct {
	number int    // in docs/explain/interop.md
	what   string // what is done
	plays  []play
}

// A play is one scenario with one library.
type play struct {
	who  string
	fate fate
	play func() (seen string, wrong bool, err error)
}

// A staging is an error of what stands around the client that a play is about: a server, an operator, another library.
type staging struct{ error }

// Unwrap is for [errors.Is].
func (s staging) Unwrap() error { return s.error }

// around marks an error as one of the staging.
func around(err error) error {
	if err == nil {
		return nil
	}
	return staging{err}
}

// A fate is what the version that this program was written with does.
type fate int

const (
	passes fate = iota
	fails
	mayFail // by chance
)

// An attempt is a lock that is being taken by a goroutine.
type attempt struct {
	locker
	done chan struct{} // closed when the answer is there
	err  error
}

// begins starts to take a lock. It goes on until it is held or fails, or the test is over.
func begins(ctx context.Context, l locker, name string) *attempt {
	a := &attempt{locker: l, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		_, a.err = l.lock(ctx, name)
	}()
	return a
}

var errNoAnswer = errors.New("no answer")

// answer waits for the outcome: nil if the lock is held, errNoAnswer if it is still waited for.
func (a *attempt) answer(within time.Duration) error {
	select {
	case <-a.done:
		return a.err
	default:
	}
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-a.done:
		return a.err
	case <-limit.C:
		return errNoAnswer
	}
}

// tells puts an outcome into words.
func tells(err error) string {
	switch {
	case err == nil:
		return "holds"
	case errors.Is(err, errNoAnswer):
		return "waits"
	}
	return fmt.Sprintf("gets the error \"%v\"", err)
}

// twofold puts into words what a waiter was told before the holder released, and after.
func twofold(early, late error) string {
	if errors.Is(early, errNoAnswer) {
		return "the waiter " + tells(late) + " after the release"
	}
	return "the waiter " + tells(early) + " at once"
}

// An opener opens one client.
type opener func(ctx context.Context, addr string) (locker, error)

// openAll opens clients, and returns how to close them.
func openAll(ctx context.Context, n int, open opener, addr string) (list []locker, end func(), err error) {
	end = func() {
		for _, l := range list {
			l.close()
		}
	}
	for range n {
		l, err := open(ctx, addr)
		if err != nil {
			end()
			return nil, nil, err
		}
		list = append(list, l)
	}
	return list, end, nil
}

// third has another client come when one that waited had its answer. If that one holds, the other is taken to wait when
// it has stood in the store's queue for a while.
func third(ctx context.Context, l locker, name string, waiter error, queue func(name string) (int, error)) (error, error) {
	before, err := queue(name)
	if err != nil {
		return nil, around(err)
	}
	a := begins(ctx, l, name)
	if waiter != nil {
		return a.answer(patience), nil
	}
	err = until("a third client has an answer, or stands in the queue", func() (bool, error) {
		if !errors.Is(a.answer(0), errNoAnswer) {
			return true, nil
		}
		n, err := queue(name)
		return n > before, err
	})
	return a.answer(prompt), err
}

// until waits for a condition of the store.
func until(what string, holds func() (bool, error)) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok && err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return errors.Join(fmt.Errorf("not yet after %v: %s", patience, what), err)
		}
	}
}

// pause lets time pass, for what must happen meanwhile in a store or a library that tells nobody.
func pause(d time.Duration) { <-time.After(d) }
