package claims

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

// LeavesTime returns an error if the trusted part of a lease is too short for a renewal.
func LeavesTime(ttl, margin time.Duration, drift float64) error {
	margin = cmp.Or(margin, min(ttl/10, time.Second))
	if left := ttl - time.Duration(2*drift*float64(ttl)) - margin; ttl > 0 && left < ttl/2 {
		return fmt.Errorf("%w margin %v with drift %v and ttl %v: %v of a lease would be trusted; renewing takes half of it",
			ErrInvalid, margin, drift, ttl, max(left, 0))
	}
	return nil
}

// CheckTimes returns an error if a client cannot have these settings.
func CheckTimes(drift float64, turn, margin, patience time.Duration) error {
	if !(drift > 0 && drift <= 0.1) { // also false for NaN
		return fmt.Errorf("%w drift %v: it must be above 0 and at most 0.1", ErrInvalid, drift)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"turn", turn}, {"margin", margin}, {"patience", patience}} {
		if d.value < 0 {
			return fmt.Errorf("%w %s %v: it must not be negative", ErrInvalid, d.name, d.value)
		}
	}
	return nil
}

// Check returns an error if a store with these traits cannot satisfy the want.
func (w *Want) Check(t *driver.Traits) error {
	switch {
	case w.Capacity != driver.All && !t.Permits:
		return fmt.Errorf("%w: %s has no permits", driver.ErrUnsupported, t.Store)
	case w.Capacity == driver.All && w.Weight != driver.All && !t.Shared:
		return fmt.Errorf("%w: %s has no readers", driver.ErrUnsupported, t.Store)
	}
	return w.checkOptions(t)
}

func (w *Want) checkOptions(t *driver.Traits) error {
	longest := driver.MaxTTL
	if t.MaxTTL > 0 {
		longest = min(longest, t.MaxTTL)
	}
	switch {
	case w.TTL < max(t.MinTTL, time.Millisecond):
		return fmt.Errorf("%w ttl %v: the shortest that %s keeps is %v", ErrInvalid, w.TTL, t.Store,
			max(t.MinTTL, time.Millisecond))
	case w.TTL > longest:
		return fmt.Errorf("%w ttl %v: the longest is %v", ErrInvalid, w.TTL, longest)
	case w.Delay > driver.MaxTTL:
		return fmt.Errorf("%w lock-delay %v: the longest is %v", ErrInvalid, w.Delay, driver.MaxTTL)
	case w.Delay > 0 && !t.Delay:
		return fmt.Errorf("%w: %s has no lock-delay", driver.ErrUnsupported, t.Store)
	case w.MaxHold < 0 || w.Linger < 0 || w.Delay < 0:
		return fmt.Errorf("%w options: max hold, linger and lock-delay must not be negative", ErrInvalid)
	case w.Linger > w.TTL:
		return fmt.Errorf("%w linger %v: it must not be longer than the ttl, %v", ErrInvalid, w.Linger, w.TTL)
	case w.Reclaim && w.Owner == "":
		return fmt.Errorf("%w options: reclaim needs an owner", ErrInvalid)
	}
	return nil
}
