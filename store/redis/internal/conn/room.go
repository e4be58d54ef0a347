package conn

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// ringScale is the size of the library's ring of requests on a connection, as a power of two. mostCalls is how many calls
// may be under way at once; the rest of the ring is for the library's own requests. A call that finds the ring full would
// wait in the library until the server answers others, even after its caller's context ends. So calls wait here, where they
// end too.
//
// A client takes 173 KiB of heap with this ring, and 427 with the library's own of 1,024.
const (
	ringScale = 8
	mostCalls = 224
)

// grace is how long a call may outlast its context: ending the call costs the connection.
const grace = 20 * time.Millisecond

// A bounded is the context of a call of the client. It ends with the caller's context, with the Conn, and in any case after
// a time.
type bounded struct {
	context.Context
	release func()
}

// bound returns the context for a call of the client. The caller releases it when the call has returned. If the caller's
// context or the Conn ends first, the error says that nothing was sent.
func (c *Conn) bound(ctx context.Context) (bounded, error) {
	if c.dialer != nil { // the dialer ends the calls when the Conn is closed
		return c.dialer.begin(ctx)
	}
	joined, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.Context(), cancel)
	return bounded{joined, func() { stop(); cancel() }}, nil
}

// begin begins a call when there is room for it. Its context ends with its caller's context, or after patience. If the call
// still hangs after grace, in the goroutine of its caller, begin ends it together with its connection. The deadline of the
// context, down to the nanosecond, identifies the connection, so calls on other connections go on. The error says that the
// call was not made.
func (d *dialer) begin(caller context.Context) (bounded, error) {
	select {
	case d.under <- struct{}{}:
	default:
		select {
		case d.under <- struct{}{}:
		case <-caller.Done():
			return bounded{}, &unsent{caller.Err()}
		case <-d.ctx.Done():
			return bounded{}, driver.ErrClosed
		}
	}
	ctx, cancel := caller, func() {}
	deadline, ok := caller.Deadline()
	if latest := time.Now().Add(patience); !ok || latest.Before(deadline) {
		deadline = latest
		ctx, cancel = context.WithDeadline(caller, latest)
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(grace):
			d.interrupt(deadline)
		}
	})
	return bounded{ctx, func() { stop(); cancel(); close(over); <-d.under }}, nil
}

// interrupt ends the calls that have this deadline and run in their callers' goroutines.
func (d *dialer) interrupt(deadline time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.open {
		c.interrupt(deadline)
	}
}
