package protocol

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// Terms are the properties of a claim beside its name: waiters for a name on the same terms take turns on one claim. Terms
// never change, and many names share them.
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
		return t // most locks of a client share their terms
	}
	other := *t
	other.Weight, other.Capacity = weight, capacity
	return &other
}

// A waiter's lease is short: a dead waiter delays the claims behind it only this long.
const waiterTTL = 6 * time.Second

// Wait returns the lease of a claim that waits.
func (t *Terms) Wait() time.Duration { return min(t.TTL, waiterTTL) }

// Permits reports whether the name has permits.
func (t *Terms) Permits() bool { return t.Capacity != driver.All }

// Shared reports whether the claim is a reader's: goroutines have their turns on it at the same time.
func (t *Terms) Shared() bool { return !t.Permits() && t.Weight != driver.All }

// Exclusive reports whether the claim holds alone.
func (t *Terms) Exclusive() bool { return !t.Permits() && t.Weight == driver.All }

// A Want is the request of one waiter, beside its terms.
type Want struct {
	Try     bool          // it does not wait
	Linger  time.Duration // how long the claim stays after its last turn, for the next
	MaxHold time.Duration // the longest hold; 0 means no limit
}
