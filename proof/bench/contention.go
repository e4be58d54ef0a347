//go:build unix

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/internal/histogram"
)

// contentionSize is how many goroutines want one lock.
const contentionSize = 64

// A field is where the holders of one lock leave their numbers. Processes may share it.
type field struct {
	last   atomic.Uint64 // who held the lock last
	inside atomic.Uint64 // who holds it now; 0 means nobody
}

// A contention is some goroutines that lock and unlock one name as fast as they can, with nothing in between.
type contention struct {
	lib   library
	name  string
	size  int
	first uint64 // number of the first of them, from 1
	field *field
	warm  time.Duration // before the window
	span  time.Duration // the window
}

// A tally is the result of a contention within its window.
type tally struct {
	Each     []int64 // acquisitions by each goroutine
	Passed   int64   // acquisitions by a goroutine that did not have the lock before
	Crossed  int64   // of these, acquisitions by another process
	Overlaps int64   // acquisitions while somebody else was inside
	Waits    histogram.Histogram
	Hunger   time.Duration // longest time that a goroutine went without the lock
}

func (t *tally) merge(other *tally) {
	t.Each = append(t.Each, other.Each...)
	t.Passed += other.Passed
	t.Crossed += other.Crossed
	t.Overlaps += other.Overlaps
	t.Waits.Merge(&other.Waits)
	t.Hunger = max(t.Hunger, other.Hunger)
}

func (t *tally) acquired() (sum int64) {
	for _, n := range t.Each {
		sum += n
	}
	return sum
}

// starved returns how many goroutines never had the lock.
func (t *tally) starved() (n int) {
	for _, got := range t.Each {
		if got == 0 {
			n++
		}
	}
	return n
}

// run starts the goroutines, and returns when the window has ended. A wait that is under way then counts as long as it has
// lasted.
func (c *contention) run() (*tally, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := time.Now().Add(c.warm)
	end := begin.Add(c.span)
	stop := time.AfterFunc(c.warm+c.span, cancel)
	defer stop.Stop()
	tallies, errs := make([]tally, c.size), make([]error, c.size)
	var done sync.WaitGroup
	for i := range c.size {
		done.Go(func() {
			if errs[i] = c.one(ctx, i, &tallies[i], begin, end); errs[i] != nil {
				cancel()
			}
		})
	}
	done.Wait()
	sum := &tally{}
	for i := range tallies {
		sum.merge(&tallies[i])
	}
	return sum, errors.Join(errs...)
}

// one locks and unlocks in one goroutine until the window has ended.
func (c *contention) one(ctx context.Context, i int, t *tally, begin, end time.Time) error {
	m, me := c.lib.mutex(c.name), c.first+uint64(i)
	var got int64
	fed := begin
	for {
		since := time.Now()
		h, err := m.lock(ctx)
		now := time.Now()
		if now.After(end) {
			if err == nil {
				_ = h.Unlock() // the time is over
			}
			if since.Before(end) {
				t.Waits.Add(end.Sub(since))
			}
			t.Each = []int64{got}
			t.Hunger = max(t.Hunger, end.Sub(fed))
			return nil
		}
		if err != nil {
			return err
		}
		before := c.field.last.Swap(me)
		alone := c.field.inside.CompareAndSwap(0, me)
		if now.After(begin) {
			got++
			t.Waits.Add(now.Sub(since))
			if before != me {
				t.Passed++
			}
			if (before-1)/uint64(c.size) != (me-1)/uint64(c.size) {
				t.Crossed++
			}
			if !alone {
				t.Overlaps++
			}
			t.Hunger = max(t.Hunger, now.Sub(fed))
			fed = now
		}
		c.field.inside.Store(0)
		if err := h.Unlock(); err != nil {
			return err
		}
	}
}
