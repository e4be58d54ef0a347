package protocol

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// Terms are the properties of a claim beside its name: waiters that want a name on the same terms take turns on one claim.
// They never change, and many names share them.
type Terms struct {
	Weight, Capacity int64
	TTL, Delay       time.Duration
	Owner            string
	Reclaim          bool
	Record           string
}

// Of returns the terms for another weight and capacity.
func (t *Terms) Of(weight, capacity int64) *Terms {
	if t.Weight == weight && t.Capacity == capacity {
		return t // most locks of a client are of one kind, and share their terms
	}
	other := *t
	other.Weight, other.Capacity = weight, capacity
	return &other
}

// A waiter's lease is short, so that one that died delays those behind it only this long.
const waiterTTL = 6 * time.Second

// Wait is the lease of a claim that waits.
func (t *Terms) Wait() time.Duration { return min(t.TTL, waiterTTL) }

// Permits reports whether the name has permits, which claims take some of.
func (t *Terms) Permits() bool { return t.Capacity != driver.All }

// Shared reports whether it is a reader's claim: goroutines have their turns on it at the same time.
func (t *Terms) Shared() bool { return !t.Permits() && t.Weight != driver.All }

// Exclusive reports whether it is a claim that holds alone.
func (t *Terms) Exclusive() bool { return !t.Permits() && t.Weight == driver.All }

// A Want is the request of one waiter, beside its terms.
type Want struct {
	Try     bool          // it does not wait
	Linger  time.Duration // how long the claim stays after the last turn, for the next
	MaxHold time.Duration // the hold ends after this; 0 means never
}
