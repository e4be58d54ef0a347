package conn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// grace is how long a call may still take when its context has ended: to end it costs the connection.
const grace = 20 * time.Millisecond

// A flight is a call of the library that is under way, and the context that the library is given for it. That ends with its
// caller's, or when patience is over, within half a grace. Nobody waits for these in the meantime: all flights are looked
// at every now and then while there are any, and are used again. A context of the standard library for each would cost a
// timer, a channel and more: a lock and unlock by one of several goroutines made 49 allocations with those, and 28 without
// (cd store/redis && go test -run '^$' -bench Pair .).
//
// What still hangs a grace later, in the goroutine of its caller, is ended with its connection, which is known by the deadline
// of the flight, down to the nanosecond; so the calls of others on other connections go on.
type flight struct {
	caller   context.Context
	deadline time.Time
	done     chan struct{} // closed when over
	err      atomic.Pointer[error]
	ended    time.Time // when it was seen that the caller's context has ended; zero before
	asked    bool      // the caller's context is being asked

	all        *flights
	number     uint64  // among all, from 1; not used again
	prev, next *flight // in the list of all
}

// Deadline is [context.Context.Deadline].
func (f *flight) Deadline() (time.Time, bool) { return f.deadline, true }

// Done is [context.Context.Done].
func (f *flight) Done() <-chan struct{} { return f.done }

// Err is [context.Context.Err].
func (f *flight) Err() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Value is [context.Context.Value]. A call has none of its caller's values.
func (f *flight) Value(any) any { return nil }

// flights are those over the connections of a dialer.
type flights struct {
	dialer *dialer
	under  chan struct{} // has one element for each call that is under way, and room for mostCalls

	mu      sync.Mutex // guards what follows
	first   *flight
	begun   uint64 // how many
	looking bool   // they are looked at soon

	callers []caller // has room for those that are asked next
}

// A caller is that of a flight, with its context.
type caller struct {
	number uint64
	ctx    context.Context
	err    error // what that says
}

var idleFlights = sync.Pool{New: func() any { return &flight{done: make(chan struct{})} }}

// ringScale is the size of the library's ring of requests on a connection, as a power of two, and mostCalls is how many calls
// are under way at once at the most; the rest of the ring is for what the library sends by itself. A call that finds the
// ring full waits in the library until the server answers others, although its caller's context may end. Here it ends too.
//
// A client takes 173 KiB of heap with this ring, and 427 with the library's own of 1,024. With 1,024 goroutines on as many names
// a lock and unlock takes 57 µs (49 to 72), and took 82 (62 to 84); of the client's processor it takes 28 µs and took 24; with
// fewer goroutines than calls nothing changes (cd store/redis && go test -run '^$' -bench 'Pair|ClientBytes' .).
const (
	ringScale = 8
	mostCalls = 224
)

// begin begins a flight for a caller, when there is room for it. It ends by the function end. The error is that of a call
// that was not made.
func (all *flights) begin(caller context.Context) (*flight, error) {
	select {
	case all.under <- struct{}{}:
	default:
		select {
		case all.under <- struct{}{}:
		case <-caller.Done():
			return nil, &unsent{caller.Err()}
		case <-all.dialer.ctx.Done():
			return nil, driver.ErrClosed
		}
	}
	f := idleFlights.Get().(*flight)
	f.caller, f.all, f.deadline = caller, all, time.Now().Add(patience)
	if until, ok := caller.Deadline(); ok && until.Before(f.deadline) {
		f.deadline = until
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if f.next = all.first; f.next != nil {
		f.next.prev = f
	}
	all.first = f
	all.begun++
	f.number, f.asked = all.begun, false
	if !all.looking {
		all.looking = true
		time.AfterFunc(grace/2, all.look)
	}
	return f, nil
}

// end ends a flight whose call has returned.
func (f *flight) end() {
	all := f.all
	<-all.under
	all.mu.Lock()
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		all.first = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	}
	all.mu.Unlock()
	f.prev, f.next, f.caller, f.all = nil, nil, nil, nil
	if f.err.Load() == nil {
		idleFlights.Put(f)
	}
}

// look ends the flights that are over. It asks the callers' contexts without the mutex: what a context does when it is asked is
// the caller's, and may be a call of its own. So no other look waits for that.
func (all *flights) look() {
	now := time.Now()
	callers := all.begins(now)
	for i := range callers {
		callers[i].err = callers[i].ctx.Err()
	}
	all.endsOf(now, callers)
}

// begins begins a look: it ends what is too late, and returns the callers that are to be asked, of the last flight first.
func (all *flights) begins(now time.Time) []caller {
	all.mu.Lock()
	defer all.mu.Unlock()
	callers := all.callers
	all.callers = nil
	for f := all.first; f != nil; f = f.next {
		switch {
		case !f.ended.IsZero():
			if now.Sub(f.ended) >= grace {
				all.dialer.interrupt(f.deadline)
			}
		case !now.Before(f.deadline):
			f.over(now, context.DeadlineExceeded)
		case !f.asked:
			f.asked = true
			callers = append(callers, caller{number: f.number, ctx: f.caller})
		}
	}
	if all.looking = all.first != nil && all.dialer.ctx.Err() == nil; all.looking {
		time.AfterFunc(grace/2, all.look)
	}
	return callers
}

// endsOf ends the flights whose callers' contexts have ended.
func (all *flights) endsOf(now time.Time, callers []caller) {
	all.mu.Lock()
	defer all.mu.Unlock()
	i := 0
	for f := all.first; f != nil && i < len(callers); f = f.next { // the last is the first in both
		for i < len(callers) && callers[i].number > f.number {
			i++ // its flight has ended
		}
		if i == len(callers) || callers[i].number != f.number {
			continue
		}
		if f.asked = false; callers[i].err != nil && f.ended.IsZero() {
			f.over(now, callers[i].err)
		}
	}
	clear(callers)
	all.callers = callers[:0]
}

// over ends a flight whose call may be under way. The mutex must be held.
func (f *flight) over(now time.Time, err error) {
	f.ended = now
	f.err.Store(&err)
	close(f.done)
}

// interrupt ends the calls with a deadline in the goroutines of their callers.
func (d *dialer) interrupt(deadline time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.open {
		c.interrupt(deadline)
	}
}
