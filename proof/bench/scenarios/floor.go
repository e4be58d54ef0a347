//go:build unix

package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile"
)

// The cost of locks beside the cost of Go itself, or of the same locks on one processor. Both are measured alternately in
// one run, so that any other load on the machine affects both.

// parts is the number of parts of the window, for a median.
const parts = 5

// beside measures two rates alternately, and returns the medians of both, and of the ratio of the first to the second.
func (r *run) beside(rate, floor func(part *run) (float64, error)) (a, b, ratio float64, err error) {
	part := run{window: r.window / parts}
	var as, bs, ratios []float64
	for range parts {
		a, err := rate(&part)
		b, failed := floor(&part)
		if err := errors.Join(err, failed); err != nil {
			return 0, 0, 0, err
		}
		as, bs, ratios = append(as, a), append(bs, b), append(ratios, a/b)
	}
	return median(as), median(bs), median(ratios), nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// A bare lock only hands on among goroutines, first come, first served, until a context ends.
type bare struct {
	mu      sync.Mutex // guards what follows
	held    bool
	waiters []chan error // the first is next
	spare   sync.Pool    // unused channels
}

func (b *bare) lock(ctx context.Context) error {
	b.mu.Lock()
	if !b.held {
		b.held = true
		b.mu.Unlock()
		return nil
	}
	turn, ok := b.spare.Get().(chan error)
	if !ok {
		turn = make(chan error, 1)
	}
	b.waiters = append(b.waiters, turn)
	b.mu.Unlock()
	select {
	case err := <-turn:
		b.spare.Put(turn)
		return err
	case <-ctx.Done():
		return context.Cause(ctx) // no context ends here, so nobody need leave the queue
	}
}

func (b *bare) unlock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiters) == 0 {
		b.held = false
		return
	}
	b.waiters[0] <- nil
	b.waiters = b.waiters[1:]
}

// bareHandOver measures a hot name beside the hand-over that every lock among goroutines must make.
func bareHandOver(r *run) ([]figure, error) {
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	l := c.Mutex(r.name)
	var b bare
	_, floor, ratio, err := r.beside(
		func(part *run) (float64, error) {
			return part.turns(goroutines, func(int) error { return lockAndUnlock(l) })
		},
		func(part *run) (float64, error) {
			return part.turns(goroutines, func(int) error {
				err := b.lock(context.Background())
				b.unlock()
				return err
			})
		})
	return []figure{
		{Name: "bare hand-over, 64 goroutines, /s", Value: floor, Higher: true},
		{Name: "hot name, of bare hand-overs", Value: ratio, Higher: true},
	}, err
}

// parallel measures independent names beside the same names on one processor.
func parallel(r *run) ([]figure, error) {
	locks, err := r.each(1, r.lingering)
	if err != nil {
		return nil, err
	}
	rate := func(part *run) (float64, error) { return part.rate(locks) }
	_, one, ratio, err := r.beside(rate, func(part *run) (float64, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		return rate(part)
	})
	return []figure{
		{Name: "64 goroutines on 64 names, Linger, one processor, /s", Value: one, Higher: true},
		{Name: "64 goroutines on 64 names, Linger, to one processor", Value: ratio, Higher: true},
	}, err
}

// check measures a check of a held lease, and reading Go's clock.
func check(r *run) ([]figure, error) {
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	lease, err := c.Mutex(r.name).Lock(context.Background())
	if err != nil {
		return nil, err
	}
	var last time.Time
	look := func(part *run) (float64, error) { return part.nanoseconds(lease.Check) }
	ns, clock, _, err := r.beside(look, func(part *run) (float64, error) {
		return part.nanoseconds(func() error { last = time.Now(); return nil })
	})
	runtime.KeepAlive(last)
	return []figure{{Name: "check, ns", Value: ns}, {Name: "clock, ns", Value: clock}}, errors.Join(err, lease.Unlock())
}

// lingering returns a lingering lock of one goroutine's own name.
func (r *run) lingering(c *stile.Client, i int) *stile.Lock {
	return r.own(c, i).With(stile.LockOptions{Linger: linger})
}
