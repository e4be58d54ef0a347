// Package known is for drivers that remember claims. A client may drop a claim without notice to its driver, for example
// when it leaves the claim to another process: so a driver must forget each claim after a time.
package known

import (
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// few is the number of remembered claims below which no sweep is due.
const few = 64

// A Limit decides when to sweep out remembered claims that are over: rarely enough to cost little per claim, and often
// enough that there are never more than about twice as many as were alive at the last sweep.
type Limit struct{ swept int }

// Reached reports whether a sweep is due, with n claims.
func (l *Limit) Reached(n int) bool { return n >= 2*l.swept+few }

// Swept notes that n claims remain after a sweep.
func (l *Limit) Swept(n int) { l.swept = n }

// Until returns when a claim is certainly over if its lease begins now, on the clock of package boottime. It allows for a
// late renewal.
func Until(ttl time.Duration) time.Duration { return boottime.Now() + 2*ttl }

// Over reports whether a time of Until is past.
func Over(until time.Duration) bool { return boottime.Now() > until }

// IDs are the ids of claims that a client may have in a store. The caller guards them. The zero IDs are empty.
type IDs struct {
	until map[string]time.Duration
	limit Limit
}

// Add notes that the lease of a claim begins now.
func (s *IDs) Add(c *driver.Claim) {
	if s.limit.Reached(len(s.until)) {
		maps.DeleteFunc(s.until, func(_ string, until time.Duration) bool { return Over(until) })
		s.limit.Swept(len(s.until))
	}
	if s.until == nil {
		s.until = map[string]time.Duration{}
	}
	s.until[c.ID] = Until(c.TTL)
}

// Drop forgets a claim.
func (s *IDs) Drop(id string) { delete(s.until, id) }

// Len returns the number of ids.
func (s *IDs) Len() int { return len(s.until) }

// All returns the ids, in any order.
func (s *IDs) All() []string { return slices.Collect(maps.Keys(s.until)) }
