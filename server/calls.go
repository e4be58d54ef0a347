package server

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
)

// cutKey is the key of a func() in the context of a batch's call, which ends it.
type cutKey struct{}

// A claimKey names a claim of the store.
type claimKey struct{ name, id string }

// calls let one call per claim run at a time, since drivers rely on that. A client, too, sends one call at a time for a
// claim. But if it ends a call by closing the connection, its next request may arrive before the server notices; and a
// request that the client gave up may arrive after the next one. So a call waits for the earlier call, within its own
// request's time. Only a wait may be cut short, since its client simply asks again, and a call of a batch: its client has given it
// up, and cannot close the connection, which others share.
type calls struct {
	mu sync.Mutex // guards the fields below
	of map[claimKey]*calling
}

// A calling has the calls about one claim.
type calling struct {
	turn  chan struct{} // has an element while a call is under way
	calls int           // including the call under way
	cut   func()        // ends the call under way; nil if it must not end early
}

// begin waits until the earlier calls about a claim have returned, then begins a call. cut, unless nil, makes the new call
// return early; a call of a batch has one of its own. end ends the call. If ctx ends first, the call does not begin.
func (cs *calls) begin(ctx context.Context, key claimKey, cut func()) (end func(), err error) {
	if cut == nil {
		cut, _ = ctx.Value(cutKey{}).(func())
	}
	c := cs.join(key)
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		cs.mu.Lock()
		defer cs.mu.Unlock()
		cs.quitLocked(key, c)
		return nil, driver.Ended(ctx, false)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.cut = cut
	c.hurry()
	return func() {
		cs.mu.Lock()
		c.cut = nil
		cs.quitLocked(key, c) // before the next call begins, which would take this one for one that waits, and be cut short
		cs.mu.Unlock()
		<-c.turn
	}, nil
}

// join adds a call to the calls about a claim.
func (cs *calls) join(key claimKey) *calling {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.of[key]
	if c == nil {
		c = &calling{turn: make(chan struct{}, 1)}
		cs.of[key] = c
	}
	c.calls++
	c.hurry()
	return c
}

// hurry cuts the call under way short if that is allowed and another call waits.
func (c *calling) hurry() {
	if c.calls > 1 && c.cut != nil {
		c.cut()
	}
}

// quitLocked removes a call.
func (cs *calls) quitLocked(key claimKey, c *calling) {
	if c.calls--; c.calls == 0 {
		delete(cs.of, key)
	}
}
