package server

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
)

// A claimKey names a claim of the store.
type claimKey struct{ name, id string }

// calls are the calls under way, one per claim: a driver may rely on this. A client has one at a time too, but ends one by
// going away, of which the server may hear after the client's next request. And a request that was given up may arrive after
// the next one. So a call waits for the one before, as long as its own request lasts, and cuts only a wait short: one that
// returns early is only asked again.
type calls struct {
	mu sync.Mutex // guards what follows
	of map[claimKey]*calling
}

// A calling is what is under way about one claim.
type calling struct {
	turn  chan struct{} // has an element while a call is under way
	calls int           // that one, and those that wait for it
	cut   func()        // has the one that is under way return early; nil if it may not
}

// begin begins a call about a claim once those before have returned; cut has it return early, unless it is nil. The function
// that it returns ends the call. If ctx ends sooner, the call does not begin.
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

// hurry cuts the call that is under way short, if another one waits for it and it may be cut.
func (c *calling) hurry() {
	if c.calls > 1 && c.cut != nil {
		c.cut()
	}
}

// quit takes a call away.
func (cs *calls) quit(key claimKey, c *calling) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.calls--; c.calls == 0 {
		delete(cs.of, key)
	}
}
