// Package known is for drivers that remember claims. A client may let go of a claim without a word to its driver, as
// when it leaves the claim to another process: so a driver must forget each claim after a time.
package known

import (
	"maps"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// few is how many claims may be remembered before anybody looks which of them are over.
const few = 64

// A Limit says when to look which of the claims that are remembered are over: seldom enough that it costs little for each
// claim, and often enough that there are never more than twice as many as were alive at the last look.
type Limit struct{ swept int }

// Reached reports whether it is time to look, with n claims.
func (l *Limit) Reached(n int) bool { return n >= 2*l.swept+few }

// Swept notes that n claims are left.
func (l *Limit) Swept(n int) { l.swept = n }

// Until is when a claim is surely over whose lease begins now, on the clock of package boottime. It leaves room for a
// renewal that is late.
func Until(ttl time.Duration) time.Duration { return boottime.Now() + 2*ttl }

// Over reports whether that is past.
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

// Len returns their number.
func (s *IDs) Len() int { return len(s.until) }

// All returns them, in any order.
func (s *IDs) All() []string { return slices.Collect(maps.Keys(s.until)) }
