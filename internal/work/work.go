// Package work runs the goroutines of a driver: a few at a time for one call, or until the driver is closed.
package work

import (
	"context"
	"sync"
)

// A Life is the time from the making of a driver to its Close.
type Life struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex // orders Go before the wait in Wait
	tasks  sync.WaitGroup
}

// Begin returns a Life that begins now.
func Begin() *Life {
	l := &Life{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context ends when the life does.
func (l *Life) Context() context.Context { return l.ctx }

// Go runs f in a goroutine that Wait waits for; f must end soon after Context does. It returns false if the life is over.
func (l *Life) Go(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.tasks.Go(f)
	return true
}

// End ends the life: Go starts no goroutine after it. A second End is harmless.
func (l *Life) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
}

// Wait waits for the goroutines. The life must have ended.
func (l *Life) Wait() { l.tasks.Wait() }

// Each calls do with each number below n, at most atOnce at the same time, and returns when all calls have returned.
func Each(n, atOnce int, do func(i int)) {
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	all.Wait()
}
