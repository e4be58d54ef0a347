package server

import (
	"context"
	"errors"
	"sync"
)

// A claimKey names a claim of the store.
type claimKey struct{ name, id string }

// A call is one that is under way about a claim.
type call struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it has returned
}

// calls are the calls under way, one per claim: a driver may rely on this. A client has one at a time too, but ends one by
// going away, of which the server may hear after the client's next request.
type calls struct {
	mu sync.Mutex // guards what follows
	of map[claimKey]*call
}

// errNewer is why a call ends whose client has asked for another one.
var errNewer = errors.New("the claim's client has sent another request")

// begin ends the earlier call about a claim, waits until that has returned, and returns the context of the next one. The
// function that it returns ends that call.
func (cs *calls) begin(ctx context.Context, key claimKey) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{cancel, make(chan struct{})}
	cs.mu.Lock()
	earlier := cs.of[key]
	cs.of[key] = c
	cs.mu.Unlock()
	if earlier != nil {
		earlier.cancel(errNewer)
		<-earlier.done // not only until ctx ends: the one after this call waits only for this one
	}
	return ctx, func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if cs.of[key] == c {
			delete(cs.of, key)
		}
		cancel(nil)
		close(c.done)
	}
}
