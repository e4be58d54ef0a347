package redis

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

const (
	lookLeast  = 5 * time.Millisecond   // between looks at a key, where the server does not tell
	lookMost   = 100 * time.Millisecond // and after a while
	lookSafely = time.Second            // where it does, in case its word was lost
	deafFor    = 30 * time.Second       // until it is asked again whether it can
)

// A waiter is what is known of a claim that somebody is in the way of.
type waiter struct {
	bell    <-chan struct{} // rings when the key has changed since the claim was refused; nil if that is not known
	left    time.Duration   // of the key; negative if it never expires
	endless time.Time       // since when it does not
}

// waits notes that a claim was refused, or with nil that it does not wait any more. It returns for how long it has waited
// for a key that never expires.
func (s *SetNX) waits(c *driver.Claim, w *waiter) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w == nil {
		delete(s.waiting, c.ID)
		return 0
	}
	before := s.waiting[c.ID]
	s.waiting[c.ID] = w
	if w.left >= 0 {
		return 0
	}
	w.endless = time.Now()
	if before != nil && !before.endless.IsZero() {
		w.endless = before.endless
	}
	return time.Since(w.endless)
}

// refused returns how a claim was refused, if that says when to look again: once, since the bell may have rung then.
func (s *SetNX) refused(c *driver.Claim) (w waiter, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.waiting[c.ID]
	if known == nil || known.bell == nil {
		return waiter{}, false
	}
	w, known.bell = *known, nil
	return w, true
}

// Await waits until the key is free, or may be. The server tells of every change of a key that this client has looked
// at, whoever makes it (CLIENT TRACKING); where it cannot, the key is looked at again and again.
func (s *SetNX) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	key := s.key(c.Name)
	pause := lookLeast
	if w, ok := s.refused(c); ok {
		if rung, err := s.heed(ctx, w.bell, pause, w.left); rung || err != nil {
			return driver.Place{}, err
		}
	}
	for {
		left, bell, err := s.tracker.look(ctx, key)
		switch {
		case s.d.ctx.Err() != nil:
			return driver.Place{}, driver.ErrClosed
		case ctx.Err() != nil:
			return driver.Place{}, driver.Ended(ctx, true)
		case err != nil:
			return driver.Place{}, s.d.explain(ctx, err)
		case left == noKey:
			return driver.Place{}, nil
		}
		if _, err := s.heed(ctx, bell, pause, time.Duration(left)*time.Millisecond); err != nil {
			return driver.Place{}, err
		}
		pause = min(2*pause, lookMost)
	}
}

// heed waits until a bell rings, or without one for about a pause, and in any case until nothing is left of the key.
func (s *SetNX) heed(ctx context.Context, bell <-chan struct{}, pause, left time.Duration) (rung bool, err error) {
	wait := pause/2 + rand.N(pause/2)
	if bell != nil {
		wait = lookSafely
	}
	if left > 0 {
		wait = min(wait, left+time.Millisecond)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-bell:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, driver.Ended(ctx, true)
	case <-s.d.ctx.Done():
		return false, driver.ErrClosed
	}
}

// noKey is what the server says is left of a key that it does not have.
const noKey = -2

// A tracker has the server tell of changes of keys, on one connection of its own, from the first wait on.
type tracker struct {
	d *Driver

	mu    sync.Mutex
	conn  rueidis.DedicatedClient // nil if there is none
	deaf  time.Time               // until when the server is not asked to tell
	bells map[string]chan struct{}
}

func newTracker(d *Driver) *tracker { return &tracker{d: d, bells: map[string]chan struct{}{}} }

// look returns how many milliseconds are left of a key, negative if it never expires, and a channel that is closed when
// it has changed since; nil if the server does not tell.
func (t *tracker) look(ctx context.Context, key string) (int64, <-chan struct{}, error) {
	bounded, release := t.d.bound(ctx)
	defer release()
	conn := t.listen(bounded)
	if conn == nil {
		left, err := t.d.client.Do(bounded, t.d.client.B().Pttl().Key(key).Build()).AsInt64()
		return left, nil, err
	}
	bell := t.bellOf(key)
	left, err := conn.Do(bounded, conn.B().Pttl().Key(key).Build()).AsInt64()
	return left, bell, err
}

// through returns what to send a request on that reads a key, and a channel that is closed when the key has changed
// since; nil if the server does not tell.
func (t *tracker) through(ctx context.Context, key string) (rueidis.CoreClient, <-chan struct{}) {
	bounded, release := t.d.bound(ctx)
	defer release()
	conn := t.listen(bounded)
	if conn == nil {
		return t.d.client, nil
	}
	return conn, t.bellOf(key)
}

// bellOf returns the bell of a key. It must be had before the look, so that no change falls between.
func (t *tracker) bellOf(key string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	bell := t.bells[key]
	if bell == nil {
		bell = make(chan struct{})
		t.bells[key] = bell
	}
	return bell
}

// listen returns the connection on which the server tells, or nil if it cannot.
func (t *tracker) listen(ctx context.Context) rueidis.DedicatedClient {
	t.mu.Lock()
	conn, deaf := t.conn, time.Now().Before(t.deaf)
	t.mu.Unlock()
	if conn != nil || deaf || t.d.client.Mode() == rueidis.ClientModeCluster {
		return conn
	}
	conn, release := t.d.client.Dedicate()
	lost := conn.SetOnInvalidations(t.changed)
	err := conn.Do(ctx, conn.B().ClientTracking().On().Build()).Error()
	t.mu.Lock()
	if err == nil && t.conn == nil && t.d.spawn(func() { t.keep(conn, lost, release) }) {
		t.conn = conn
		t.mu.Unlock()
		return conn
	}
	other := t.conn // made by another at the same time
	if other == nil && ctx.Err() == nil {
		t.deaf = time.Now().Add(deafFor)
	}
	t.mu.Unlock()
	conn.Close()
	release()
	return other
}

// keep waits until the connection is lost, or the driver is closed.
func (t *tracker) keep(conn rueidis.DedicatedClient, lost <-chan error, release func()) {
	select {
	case <-lost: //nolint:errcheck // how it was lost is no matter
	case <-t.d.ctx.Done():
	}
	t.forget(conn)
	t.changed(nil)
	conn.Close()
	release()
}

// changed tells those who wait for keys; for all, if none are named.
func (t *tracker) changed(keys []rueidis.RedisMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ring := func(key string) {
		if bell := t.bells[key]; bell != nil {
			close(bell)
			delete(t.bells, key)
		}
	}
	if keys == nil {
		for key := range t.bells {
			ring(key)
		}
	}
	for _, k := range keys {
		if key, err := k.ToString(); err == nil {
			ring(key)
		}
	}
}
