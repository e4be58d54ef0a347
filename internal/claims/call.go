package claims

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A call is the context of one request to the driver, and belongs to the keeper. It ends at the request's limit, or when the
// engine cuts it. If a caller's goroutine runs the request, the call also ends with the caller's context, since the
// goroutine must then return; the engine treats that as no answer, and asks again for the other waiters.
//
// It costs almost nothing until a driver waits for its end. A context of the standard library would each time start a timer
// and register with its parent.
type call struct {
	asks   driver.Claim   // the request's argument
	leaves driver.Release // the argument of Leave
	clock  *clock
	end    time.Duration   // on the clock
	caller context.Context // nil in a worker

	mu     sync.Mutex // guards the fields below
	err    error
	done   chan struct{} // nil until the first Done
	timer  *time.Timer
	stop   func() bool // unregisters from the caller's context
	afters []*func()   // usually one: a map takes 152 bytes more (go test ./internal/claims -run '^$' -bench Derived)
}

// begin prepares a call that may last until end.
func (c *call) begin(k *clock, end time.Duration, caller context.Context) {
	c.clock, c.end, c.caller = k, end, caller
}

// Deadline is [context.Context.Deadline]. It reads no clock, since drivers call it with each request.
func (c *call) Deadline() (time.Time, bool) { return c.clock.at(c.end), true }

func (c *call) left() time.Duration { return c.end - c.clock.recent() }

// Value is [context.Context.Value]. A request has no values of its caller: it may serve others.
func (c *call) Value(any) any { return nil }

// Err is [context.Context.Err].
func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && c.done == nil {
		// Without Done nothing watches the time and the caller.
		if c.caller != nil && c.caller.Err() != nil {
			c.err = context.Canceled
		} else if c.left() <= 0 {
			c.err = context.DeadlineExceeded
		}
	}
	return c.err
}

// Done is [context.Context.Done].
func (c *call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		} else {
			c.timer = time.AfterFunc(c.left(), func() { c.cut(context.DeadlineExceeded) })
			if c.caller != nil {
				c.stop = context.AfterFunc(c.caller, func() { c.cut(context.Canceled) })
			}
		}
	}
	return c.done
}

// AfterFunc lets package context notify derived contexts without a goroutine for each.
func (c *call) AfterFunc(f func()) func() bool {
	c.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	c.afters = append(c.afters, &f)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.afters, &f)
		if i >= 0 {
			c.afters = slices.Delete(c.afters, i, i+1)
		}
		return i >= 0
	}
}

// cut ends the context.
func (c *call) cut(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	afters := c.afters
	c.afters = nil
	c.stopLocked()
	if c.done != nil {
		close(c.done)
	}
	c.mu.Unlock()
	for _, f := range afters {
		go (*f)()
	}
}

// finish ends the context after the request has returned.
func (c *call) finish() { c.cut(context.Canceled) }

// stopLocked stops the timer and the watch of the caller's context.
func (c *call) stopLocked() {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.stop != nil {
		c.stop()
	}
}
