package claims

import (
	"context"
	"maps"
	"time"
)

// In a store without a queue, who asks at the right moment has the lock next. That is mostly the process that had it
// before: it knows first that the lock is free, and would keep all others from it without end. So it lets them ask first
// when it knows of any, and now and then when it does not.

const (
	courtesyLeast = 500 * time.Microsecond // and two round trips: for others to be told and to ask
	courtesyMost  = 50 * time.Millisecond
	courtesyEvery = 200 * time.Millisecond // without a sign of others
	rivalsFor     = time.Second            // after a claim was refused
	fewCourtesies = 1024                   // names, until those of which nothing was heard are forgotten
)

// A courtesy is what is known of the wish of other processes for a name.
type courtesy struct {
	refused time.Duration // when a claim of ours was
	left    time.Duration // when the last one left the store
	took    time.Duration // for how long it was about that
	given   time.Duration // when others were last let go first
}

// courtesy returns what is known of a name. The caller holds mu.
func (k *Keeper) courtesy(name string, now time.Duration) *courtesy {
	c := k.courtesies[name]
	if c != nil {
		return c
	}
	if len(k.courtesies) >= max(fewCourtesies, k.manyCourtesies) {
		maps.DeleteFunc(k.courtesies, func(_ string, c *courtesy) bool { return now-max(c.refused, c.left) > rivalsFor })
		k.manyCourtesies = 2 * len(k.courtesies)
	}
	c = &courtesy{refused: -rivalsFor, left: -rivalsFor, given: now}
	k.courtesies[name] = c
	return c
}

// owes returns how long a claim should wait before it enters.
func (c *courtesy) owes(now time.Duration) time.Duration {
	if now-c.refused >= rivalsFor && now-c.given < courtesyEvery {
		return 0
	}
	return c.left + min(courtesyLeast+2*c.took, courtesyMost) - now
}

// giveWay waits as long as a new claim should, or until ctx ends.
func (s *seat) giveWay(ctx context.Context) {
	k := s.k
	if k.traits.Ordered || s.claim.Try {
		return
	}
	k.mu.Lock()
	now := k.clock.recent()
	var wait time.Duration
	if c := k.courtesies[s.claim.Name]; c != nil {
		if wait = c.owes(now); wait > 0 {
			c.given = now
		}
	}
	k.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
