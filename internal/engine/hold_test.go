package engine

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A reader whose claim leaves the store with its hold lets others share it before, unless somebody else wants the lock.
func TestCloses(t *testing.T) {
	common := NewCommon(&protocol.Config{
		Turn: time.Second, Patience: time.Second, Strays: 8, Ordered: true,
		Trusted: func(sent Time, ttl time.Duration) Time { return sent + ttl },
		Jitter:  func(time.Duration) time.Duration { return 0 },
	})
	e := New(&common)
	reading := &protocol.Terms{Weight: 1, Capacity: driver.All, TTL: time.Second}
	writing := &protocol.Terms{Weight: driver.All, Capacity: driver.All, TTL: time.Second}
	want := func(terms *protocol.Terms) Slot { // which the store grants at once
		t.Helper()
		h, w := e.Want(0, terms, protocol.Want{})
		if h != None {
			return h
		}
		for _, f := range e.Effects() {
			if f.Do == protocol.Send && f.Verb == protocol.Enter {
				e.Answer(0, &protocol.Reply{Claim: f.Claim, Number: f.Number, Place: driver.Place{Ticket: 1, Holds: true, TTL: time.Second}})
			}
		}
		e.Effects()
		return w
	}
	closes := func(h Slot, want bool, what string) {
		t.Helper()
		if got := e.Closes(h); got != want {
			t.Errorf("%s: the claim leaves with the hold, and could be shared: %v", what, got)
		}
	}
	first := want(reading)
	closes(first, true, "one reader")
	second := want(reading)
	closes(first, false, "two readers")
	e.Release(0, first, 0)
	closes(second, true, "the one that is left")
	if !e.Share(0, second) {
		t.Fatal("the hold is over")
	}
	closes(second, false, "a hold of two shares")
	e.Release(0, second, 0)
	e.Want(0, writing, protocol.Want{})
	closes(second, false, "a reader for whom a writer waits")

	e = New(&common)
	closes(want(writing), false, "a writer")
}
