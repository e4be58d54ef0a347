package server

import "sync"

// A claimKey names a claim of the store.
type claimKey struct{ name, id string }

// A call is one that is under way about a claim.
type call struct {
	cut  func()        // has it return early; nil if it may not
	done chan struct{} // closed when it has returned
}

// calls are the calls under way, one per claim: a driver may rely on this. A client has one at a time too, but ends one by
// going away, of which the server may hear after the client's next request. And a request that was given up may arrive after
// the next one. So a call waits for the one before, and cuts only a wait short: one that returns early is only asked again.
type calls struct {
	mu sync.Mutex // guards what follows
	of map[claimKey]*call
}

// begin begins a call about a claim once the one before has returned. The function that it returns ends the call.
func (cs *calls) begin(key claimKey, cut func()) (end func()) {
	c := &call{cut, make(chan struct{})}
	cs.mu.Lock()
	earlier := cs.of[key]
	cs.of[key] = c
	cs.mu.Unlock()
	if earlier != nil {
		if earlier.cut != nil {
			earlier.cut()
		}
		<-earlier.done // not only until the request ends: the call after this one waits only for this one
	}
	return func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if cs.of[key] == c {
			delete(cs.of, key)
		}
		close(c.done)
	}
}
