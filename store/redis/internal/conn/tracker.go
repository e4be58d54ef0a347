package conn

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	refusedFor = 30 * time.Second       // until the server is asked again to report changes
	lookAround = 100 * time.Millisecond // between two checks whether the primary has changed
)

// NoKey is the server's answer for the remaining time of a missing key.
const NoKey = -2

// A tracker receives the server's reports of changed keys (CLIENT TRACKING), on a connection of its own. This connection is
// not tied to the present primary, so it only reads; locks are taken on the client, which is.
//
//	            made                     refused
//	listening ◄────── silent ───────────────────────► refused
//	    │               ▲ ▲                             │
//	    └───────────────┘ └─────────────────────────────┘
//	 lost, or the primary is another       refusedFor is over
//
// Only the server's refusal of the command makes a tracker refused. A connection that could not be made says nothing about
// the server, and the next reader tries again.
type tracker struct {
	c *Conn

	mu           sync.Mutex
	tracking     *trackingConn        // the tracker listens on it; nil if it is silent or refused
	refusedUntil time.Time            // when the tracker asks again
	onChange     func(keys ...string) // set by OnChange
}

// A trackingConn is a connection on which the server reports changes.
type trackingConn struct {
	conn    rueidis.DedicatedClient
	ctx     context.Context // ends when the connection is given up
	giveUp  context.CancelFunc
	primary string                // its server's address; "" if there is no other
	signals map[string]*keySignal // by key; nil once the connection is given up; guarded by the tracker's mu
}

// A keySignal is given once. It exists while somebody waits for it.
type keySignal struct {
	given   chan struct{} // closed when the key has changed
	waiters int           // callers that have not released it
}

// Look returns how many milliseconds are left of a key, NoKey if it does not exist, or another negative number if it never
// expires. It also returns a channel that is closed when the key has changed since; nil if the servers report no changes.
func (c *Conn) Look(ctx context.Context, key string) (left int64, signal <-chan struct{}, err error) {
	bounded, err := c.bound(ctx)
	if err != nil {
		return 0, nil, c.explain(ctx, err)
	}
	defer bounded.release()
	r, signal, err := c.tracker.readTracked(bounded.Context, key, c.client.B().Pttl().Key(key).Build().Pin())
	if signal == nil && err == nil {
		r = c.client.Do(bounded.Context, c.client.B().Pttl().Key(key).Build())
	}
	if err == nil {
		left, err = r.AsInt64()
	}
	if err != nil {
		c.ReleaseSignal(key, signal)
		return 0, nil, c.explain(ctx, err)
	}
	return left, signal, nil
}

// Signal returns a channel that is closed when a key has changed since; nil if the servers report no changes. A
// caller that stops waiting gives it back with ReleaseSignal.
func (c *Conn) Signal(ctx context.Context, key string) (<-chan struct{}, error) {
	bounded, err := c.bound(ctx)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	defer bounded.release()
	r, signal, err := c.tracker.readTracked(bounded.Context, key, c.client.B().Type().Key(key).Build().Pin())
	if signal != nil && err == nil {
		err = r.Error()
	}
	if err != nil {
		c.ReleaseSignal(key, signal)
		return nil, c.explain(ctx, err)
	}
	return signal, nil
}

// ReleaseSignal releases a channel that Look or Signal returned for a key. The last release removes the signal. Nil is
// harmless.
func (c *Conn) ReleaseSignal(key string, given <-chan struct{}) {
	t := c.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tracking == nil {
		return
	}
	if b := t.tracking.signals[key]; b != nil && b.given == given {
		if b.waiters--; b.waiters == 0 {
			delete(t.tracking.signals, key)
		}
	}
}

// Signals returns the number of keys for which somebody waits.
func (c *Conn) Signals() int {
	c.tracker.mu.Lock()
	defer c.tracker.mu.Unlock()
	if c.tracker.tracking == nil {
		return 0
	}
	return len(c.tracker.tracking.signals)
}

// OnChange sets the function that gets the keys that have changed since Values read them, or no keys if any of them may have
// changed. The function must return soon, and not call the Conn. OnChange is called before the first Values.
func (c *Conn) OnChange(changed func(keys ...string)) {
	c.tracker.mu.Lock()
	defer c.tracker.mu.Unlock()
	c.tracker.onChange = changed
}

// Values reads keys, and reports their next change to the function of OnChange. A missing key, or one that is no string,
// has the value "". It returns false if the servers do not report changes, or did not answer.
func (c *Conn) Values(ctx context.Context, keys []string) (values []string, ok bool) {
	bounded, err := c.bound(ctx)
	if err != nil {
		return nil, false
	}
	defer bounded.release()
	e := c.tracker.listen(bounded.Context)
	if e == nil {
		return nil, false
	}
	cmds := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		cmds[i] = c.client.B().Get().Key(key).Build().Pin()
	}
	for _, r := range c.tracker.read(bounded.Context, e, cmds...) {
		if r.NonRedisError() != nil {
			return nil, false
		}
		value, _ := r.ToString() // the error is the server's: no such key, or not a string
		values = append(values, value)
	}
	return values, true
}

// readTracked sends a command that reads a key over the connection on which the server reports its later changes. The
// channel is nil, and nothing was sent, if there is no such connection. If the connection is lost, the command is
// sent once more on another.
func (t *tracker) readTracked(ctx context.Context, key string, cmd rueidis.Completed) (
	r rueidis.RedisResult, signal <-chan struct{}, err error,
) {
	for range 2 {
		e := t.listen(ctx)
		if e == nil {
			return rueidis.RedisResult{}, nil, nil
		}
		// The signal is there before the server reads the key: a change after the read finds it, and a change before
		// the read is in the answer.
		signal = t.signalOf(e, key)
		r = t.read(ctx, e, cmd)[0]
		if err = r.NonRedisError(); err == nil || ctx.Err() != nil {
			break
		}
		t.c.ReleaseSignal(key, signal)
	}
	return r, signal, err
}

// read sends commands on a tracking connection, and gives the connection up if it has failed.
func (t *tracker) read(ctx context.Context, e *trackingConn, cmds ...rueidis.Completed) []rueidis.RedisResult {
	joined, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	rs := e.conn.DoMulti(joined, cmds...)
	if rs[len(rs)-1].NonRedisError() != nil && ctx.Err() == nil {
		t.forget(e)
	}
	return rs
}

// signalOf returns the signal of a key on a tracking connection. If the connection was given up, the signal is already
// given.
func (t *tracker) signalOf(e *trackingConn, key string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := e.signals[key]
	if b == nil {
		b = &keySignal{given: make(chan struct{})}
		if e.signals == nil {
			close(b.given)
			return b.given
		}
		e.signals[key] = b
	}
	b.waiters++
	return b.given
}

// listen returns the connection on which the server reports changes, or nil if there is none.
func (t *tracker) listen(ctx context.Context) *trackingConn {
	t.mu.Lock()
	e, refused := t.tracking, time.Now().Before(t.refusedUntil)
	t.mu.Unlock()
	if e != nil || refused || !t.c.ReportsChanges() {
		return e
	}
	e = &trackingConn{signals: map[string]*keySignal{}, primary: t.c.primary()}
	conn, release := t.c.client.Dedicate()
	e.conn = conn
	e.ctx, e.giveUp = context.WithCancel(t.c.Context())
	lost := conn.SetOnInvalidations(func(keys []rueidis.RedisMessage) { t.changed(e, keys) })
	err := conn.Do(ctx, conn.B().ClientTracking().On().Build()).Error()
	t.mu.Lock()
	// Two races end here. Another caller may have made a tracking connection meanwhile: then others wait for its signals,
	// and this one is closed. Or the primary changed during the dial: then the connection may lead to the old primary.
	if err == nil && t.tracking == nil && t.c.primary() == e.primary && t.c.Go(func() { t.watchPrimary(e, lost, release) }) {
		t.tracking = e
		t.mu.Unlock()
		return e
	}
	other := t.tracking
	if other == nil && forbids(err) {
		t.refusedUntil = time.Now().Add(refusedFor)
	}
	t.mu.Unlock()
	e.giveUp()
	conn.Close()
	release()
	return other
}

// watchPrimary waits until the connection is lost or given up, or its server is no longer the primary: such a server may be
// stopped, or report changes that only it knows.
func (t *tracker) watchPrimary(e *trackingConn, lost <-chan error, release func()) {
	var moves <-chan time.Time
	if e.primary != "" {
		look := time.NewTicker(lookAround)
		defer look.Stop()
		moves = look.C
	}
	for there := true; there; {
		select {
		case <-moves:
			there = t.c.primary() == e.primary
		case <-lost: //nolint:errcheck // the reason does not matter
			there = false
		case <-e.ctx.Done():
			there = false
		}
	}
	t.forget(e)
	e.conn.Close()
	release()
}

// forget gives up a tracking connection, and gives the signals of all keys, since no changes are reported any more.
func (t *tracker) forget(e *trackingConn) {
	e.giveUp()
	t.mu.Lock()
	defer t.mu.Unlock()
	e.signalAllLocked()
	e.signals = nil
	if t.tracking != e {
		return
	}
	if t.tracking = nil; t.onChange != nil {
		t.onChange()
	}
}

// changed gives the signals of some keys, or of all keys if none are named.
func (t *tracker) changed(e *trackingConn, keys []rueidis.RedisMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		key, err := k.ToString()
		if err != nil {
			continue
		}
		if names = append(names, key); e.signals[key] != nil {
			close(e.signals[key].given)
			delete(e.signals, key)
		}
	}
	if keys == nil {
		e.signalAllLocked()
	}
	if t.onChange != nil && len(names) == len(keys) {
		t.onChange(names...)
	}
}

// signalAllLocked gives the signals of all keys.
func (e *trackingConn) signalAllLocked() {
	for _, b := range e.signals {
		close(b.given)
	}
	clear(e.signals)
}
