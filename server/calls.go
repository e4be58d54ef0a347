package server

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
)

// A claimKey names a claim of the store.
type claimKey struct{ name, id string }

// calls are the calls under way, one per claim, since drivers rely on that. A client too sends one call at a time for a
// claim. But it may end a call by closing the connection, and the server may notice that after the client's next request;
// and a request that was given up may arrive after the next one. So a call waits for the one before it, as long as its own
// request lasts. Only a wait is cut short: if it returns early, its client just asks again.
type calls struct {
	mu sync.Mutex // guards what follows
	of map[claimKey]*calling
}

// A calling is the calls about one claim.
type calling struct {
	turn  chan struct{} // has an element while a call is under way
	calls int           // the call under way, and those that wait for it
	cut   func()        // makes the call under way return early; nil if it must not
}

// begin begins a call about a claim once the earlier ones have returned; cut makes it return early, unless nil. The
// function that begin returns ends the call. If ctx ends sooner, the call does not begin.
func (cs *calls) begin(ctx context.Context, key claimKey, cut func()) (end func(), err error) {
	c := cs.join(key)
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		cs.quit(key, c)
		return nil, driver.Ended(ctx, false)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.cut = cut
	c.hurry()
	return func() {
		cs.mu.Lock()
		c.cut = nil
		cs.mu.Unlock()
		<-c.turn
		cs.quit(key, c)
	}, nil
}

// join adds a call to those about a claim.
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

// hurry cuts the call under way short, if it may be cut and another one waits for it.
func (c *calling) hurry() {
	if c.calls > 1 && c.cut != nil {
		c.cut()
	}
}

// quit removes a call.
func (cs *calls) quit(key claimKey, c *calling) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.calls--; c.calls == 0 {
		delete(cs.of, key)
	}
}
