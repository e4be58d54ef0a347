package server

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// Trap: a call that ends lets the next one begin. The next one must not count it as one that waits, and cut itself short.
func TestNextCallIsNotCut(t *testing.T) {
	cs := &calls{of: map[claimKey]*calling{}}
	key := claimKey{"a", "x"}
	waiting := func() int {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		return cs.of[key].calls
	}
	for range 5000 {
		end, err := cs.begin(t.Context(), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		var cut atomic.Bool
		ended := make(chan error)
		go func() {
			next, err := cs.begin(t.Context(), key, func() { cut.Store(true) })
			if err == nil {
				next()
			}
			ended <- err
		}()
		for waiting() < 2 {
			runtime.Gosched()
		}
		end()
		if err := <-ended; err != nil || cut.Load() {
			t.Fatalf("the next call: %v, cut short: %v; want that it begins, and that nothing ends it", err, cut.Load())
		}
	}
	if len(cs.of) > 0 {
		t.Errorf("%d claims are left", len(cs.of))
	}
}
