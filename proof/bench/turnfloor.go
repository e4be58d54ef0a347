//go:build unix

package main

import (
	"context"
	"sync"
	"time"
)

// What no lock can be quicker than that goroutines of one process hand to each other: a channel, beside a row of the store.

const (
	bareTurns = "bare rows, in turns of a channel"
	turnSpan  = 2 * time.Millisecond // as stile's
)

// A turnFloor has goroutines take turns by a channel, which is in the order in which they came, while the process has what another
// floor has for a lock. That goes and comes anew when it is as old as a turn of stile's, which other processes would have then.
type turnFloor struct {
	library
	mu   sync.Mutex // guards what follows
	hats map[string]chan hat
}

// A hat is what who has the turn has.
type hat struct {
	held  held // nil before the first turn
	since time.Time
}

// turnsOf returns how a turnFloor is opened on another one.
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

// close gives back what nobody has the turn of.
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
		h.held, err = m.inner.lock(context.Background()) // a row of which nothing is known would be in the way of the next
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
