//go:build unix

package main

import (
	"context"
	"sync"
	"time"
)

// The bare limit of a lock that goroutines of one process pass to each other: a channel, and a row of the store.

const (
	bareTurns = "bare rows, in turns of a channel"
	turnSpan  = 2 * time.Millisecond // like stile's
)

// A turnFloor lets goroutines take turns by a channel, in the order in which they came, while the process holds the lock of
// another floor. When that lock has been held for as long as stile's turns last, it is released and taken again, as if
// other processes wanted it.
type turnFloor struct {
	library
	mu   sync.Mutex // guards what follows
	hats map[string]chan hat
}

// A hat is passed to the goroutine whose turn it is.
type hat struct {
	held  held // nil before the first turn
	since time.Time
}

// turnsOf returns a function that opens a turnFloor on another floor.
func turnsOf(open func(string, time.Duration) (library, error)) func(string, time.Duration) (library, error) {
	return func(addr string, ttl time.Duration) (library, error) {
		l, err := open(addr, ttl)
		return &turnFloor{library: l, hats: map[string]chan hat{}}, err
	}
}

func (l *turnFloor) mutex(name string) mutex {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hats[name] == nil {
		l.hats[name] = make(chan hat, 1)
		l.hats[name] <- hat{}
	}
	return turnMutex{l.hats[name], l.library.mutex(name)}
}

// close releases the lock if no goroutine has the turn.
func (l *turnFloor) close() {
	for _, hats := range l.hats {
		select {
		case h := <-hats:
			if h.held != nil {
				_ = h.held.Unlock() // the time is over
			}
		default:
		}
	}
	l.library.close()
}

type turnMutex struct {
	hats  chan hat
	inner mutex
}

func (m turnMutex) lock(ctx context.Context) (_ held, err error) {
	var h hat
	select {
	case h = <-m.hats:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h.held != nil && time.Since(h.since) < turnSpan {
		return turnHeld{m.hats, h}, nil
	}
	if h.held != nil {
		err = h.held.Unlock()
		h.held = nil
	}
	if err == nil {
		h.since = time.Now()
		h.held, err = m.inner.lock(context.Background()) // a row in an unknown state would be in the next one's way
	}
	if err != nil {
		m.hats <- hat{}
		return nil, err
	}
	return turnHeld{m.hats, h}, nil
}

type turnHeld struct {
	hats chan hat
	hat  hat
}

func (h turnHeld) Unlock() error {
	h.hats <- h.hat
	return nil
}
