package conn

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// deaf starts a listener that accepts connections and never answers.
func deaf(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A call that outlives its context ends, and calls on other connections go on.
func TestInterruptEndsOneCall(t *testing.T) {
	t.Parallel()
	addr := deaf(t)
	d := newDialer(time.Minute, time.Minute)
	t.Cleanup(d.close)
	begin := func() (net.Conn, context.CancelFunc, func()) {
		c, err := d.dial(t.Context(), addr, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		call := begun(t, d, ctx)
		until, _ := call.Deadline()
		c.SetDeadline(until) // as the library does
		return c, cancel, call.release
	}
	innocent, _, stop := begin()
	defer stop()
	ended, cancel, stop2 := begin()
	defer stop2()
	over := make(chan error, 2)
	go func() { _, err := innocent.Read(make([]byte, 1)); over <- err }()
	cancel()
	if _, err := ended.Read(make([]byte, 1)); err == nil {
		t.Error("the call whose context ended goes on")
	}
	select {
	case err := <-over:
		t.Errorf("the call of another ends with %v", err)
	default:
	}
	innocent.SetDeadline(time.Now())
	<-over //nolint:errcheck // it ends
}

// The context of a call ends with its caller's context.
func TestCallEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	d := newDialer(time.Minute, time.Minute)
	t.Cleanup(d.close)
	brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	canceled, cancel2 := context.WithCancel(t.Context())
	cancel2()
	for want, caller := range map[error]context.Context{context.DeadlineExceeded: brief, context.Canceled: canceled} {
		other, call := begun(t, d, t.Context()), begun(t, d, caller)
		<-call.Done()
		if err := call.Err(); !errors.Is(err, want) {
			t.Errorf("the call ends with %v, want %v", err, want)
		}
		if err := other.Err(); err != nil {
			t.Errorf("the call of another ends with %v", err)
		}
		call.release()
		other.release()
	}
	if n := len(d.under); n != 0 {
		t.Errorf("%d calls are under way, want none", n)
	}
}

// A call waits for room, or ends with its caller or the dialer, and then was not sent.
func TestCallsWaitForRoom(t *testing.T) {
	t.Parallel()
	d := newDialer(time.Minute, time.Minute)
	all := make([]bounded, mostCalls)
	for i := range all {
		all[i] = begun(t, d, t.Context())
	}
	brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := d.begin(brief)
	if err = newConn().explain(brief, err); !errors.Is(err, context.DeadlineExceeded) || !driver.NotApplied(err) {
		t.Errorf("a call without room = %v; want its caller's end, and that it was not sent", err)
	}
	late := make(chan error)
	begin := func() {
		call, err := d.begin(t.Context())
		if err == nil {
			call.release()
		}
		late <- err
	}
	go begin()
	all[0].release()
	if err := <-late; err != nil {
		t.Errorf("a call for which there is room = %v", err)
	}
	all[0] = begun(t, d, t.Context())
	go begin()
	d.close()
	if err := <-late; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a call of a dialer that is closed = %v; want ErrClosed", err)
	}
	for _, call := range all {
		call.release()
	}
}

// begun is a call that is under way.
func begun(t *testing.T, d *dialer, caller context.Context) bounded { //nolint:revive // the context is the caller's
	t.Helper()
	call, err := d.begin(caller)
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// A connection that owes an answer for long is given up; one that owes none is kept.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	addr := deaf(t)
	d := newDialer(time.Minute, 50*time.Millisecond)
	t.Cleanup(d.close)
	idle, err := d.dial(t.Context(), addr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	owing, err := d.dial(t.Context(), addr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	reads := func(c net.Conn) <-chan error {
		over := make(chan error, 1)
		go func() { _, err := c.Read(make([]byte, 1)); over <- err }()
		return over
	}
	over := reads(idle)
	if _, err := owing.Write([]byte("PING")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-reads(owing):
		if err == nil {
			t.Error("an answer came")
		}
	case <-time.After(time.Minute):
		t.Fatal("the connection that owes an answer is not given up")
	}
	select {
	case err := <-over:
		t.Errorf("an idle connection ends with %v", err)
	default:
	}
}

// The connection of a call has the deadline of the call's context, and may notice it first. Its error is still the context's
// end, not the server's silence.
func TestDeadlineIsTheCallers(t *testing.T) {
	t.Parallel()
	c := newConn()
	ctx := &late{Context: t.Context(), until: time.Now(), done: make(chan struct{})}
	time.AfterFunc(10*time.Millisecond, func() { close(ctx.done) })
	got := c.explain(ctx, os.ErrDeadlineExceeded)
	if !errors.Is(got, context.DeadlineExceeded) || driver.OutcomeOf(got) != driver.OutcomeUnknown {
		t.Errorf("the error is %v; want the context's, with nothing about the outcome", got)
	}
}

// A late context is done a moment after its deadline, as on a busy machine.
type late struct {
	context.Context
	until time.Time
	done  chan struct{}
}

func (l *late) Deadline() (time.Time, bool) { return l.until, true }
func (l *late) Done() <-chan struct{}       { return l.done }
func (l *late) Err() error {
	select {
	case <-l.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
