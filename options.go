package stile

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/claims"
)

// Options are a client's settings. The zero value, and nil, mean the defaults.
type Options struct {
	LockOptions // the options of each lock, unless Lock.With changes them

	Observer Observer       // gets the events; nil means nobody
	Require  []driver.Trait // without these Open and Lock fail, with ErrUnsupported, and leases end, with ReasonUnfit; nil means none

	// Turn bounds how long goroutines of this client may hand the lock over among themselves before other processes have
	// their turn. 0 means 2 ms. If a lease is held for longer than that, its release ends the turn.
	Turn time.Duration

	// Margin is subtracted from the time for which a lease is trusted, in addition to Drift: the client stops trusting the
	// lease this long before the store may end it. 0 means a tenth of the ttl, at most a second.
	Margin time.Duration

	// Drift bounds how much the rates of two clocks may differ: 0.1 at most. 0 means 0.005, ten times what NTP slews by.
	Drift float64

	// Patience is how long a call keeps asking a store that does not answer before it fails. It counts from the call, or from
	// the first request after the call that got no answer. 0 means 5 s. A waiter that already stood in the store's queue has
	// twelve times as much, so that it outlasts a restart or a failover. See docs/reference/bounds.md for each call.
	Patience time.Duration
}

// LockOptions are the settings of one lock. The zero of each field means its default.
type LockOptions struct {
	TTL       time.Duration // how long a lease outlives its last renewal: from the store's minimum to 24 h; 0 means 15 s
	MaxHold   time.Duration // a lease is lost after this, renewed or not; 0 means never
	Linger    time.Duration // how long the claim stays in the store after the last unlock, for the next lock here; 0 means not
	LockDelay time.Duration // after a lease that ran out while held, keeps everyone out for this long; 0 means not
	Reentrant bool          // accept a context that already holds the lock; its lease and token are shared
	Owner     string        // a stable name of the job, for people to read and for Reclaim; "" means none
	Reclaim   bool          // entering removes the claim of an earlier run with the same Owner, unless UnlockAfter keeps it
	Reason    string        // why, for people to read
}

const (
	defaultTTL      = 15 * time.Second
	defaultTurn     = 2 * time.Millisecond
	defaultPatience = 5 * time.Second
	defaultDrift    = 0.005
)

// over returns the options with the zero fields of o taken from the defaults below.
func (o LockOptions) over(below LockOptions) LockOptions {
	pick(&o.TTL, below.TTL)
	pick(&o.MaxHold, below.MaxHold)
	pick(&o.Linger, below.Linger)
	pick(&o.LockDelay, below.LockDelay)
	pick(&o.Owner, below.Owner)
	pick(&o.Reason, below.Reason)
	o.Reentrant = o.Reentrant || below.Reentrant
	o.Reclaim = o.Reclaim || below.Reclaim
	return o
}

func pick[T comparable](field *T, fallback T) {
	if *field == *new(T) {
		*field = fallback
	}
}

func (o *Options) withDefaults() (Options, error) {
	all := *cmp.Or(o, &Options{})
	o = &all
	pick(&o.TTL, defaultTTL)
	pick(&o.Turn, defaultTurn)
	pick(&o.Patience, defaultPatience)
	pick(&o.Drift, defaultDrift)
	if err := claims.CheckTimes(o.Drift, o.Turn, o.Margin, o.Patience); err != nil {
		return all, fmt.Errorf("stile: open: %w", err)
	}
	return all, nil
}
