package claims

import (
	"maps"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// In a store without a queue, the client that asks at the right moment has the lock next. That is mostly the process
// that had it before: it knows first that the lock is free, and would keep all others from it without end. So it lets
// them ask first when it knows of any, and now and then when it does not.

const (
	yieldLeast = 500 * time.Microsecond // and two round trips: for others to be told and to ask
	yieldMost  = 50 * time.Millisecond
	yieldEvery = 200 * time.Millisecond // without a sign of others
	rivalsFor  = time.Second            // after a claim was refused
)

// yields remember which names other processes want.
type yields struct {
	mu     sync.Mutex // guards what follows
	byName map[string]*yield
}

type yield struct {
	refused time.Duration // when a claim of ours was
	left    time.Duration // when the last one left the store
	took    time.Duration // for how long it was about that
	given   time.Duration // when others were last let go first
}

// ofLocked returns the entry of a name.
func (y *yields) ofLocked(name string, now time.Duration) *yield {
	if y.byName == nil {
		y.byName = map[string]*yield{}
	}
	one := y.byName[name]
	if one == nil {
		one = &yield{refused: -rivalsFor, left: -rivalsFor, given: now}
		y.byName[name] = one
	}
	return one
}

// refused notes that others hold a name.
func (y *yields) refused(name string, now time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.ofLocked(name, now).refused = now
}

// left notes that a claim left the store, which it began to do a while ago.
func (y *yields) left(name string, began, now time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	one := y.ofLocked(name, now)
	one.left, one.took = now, now-began
}

// prune forgets names of which nothing was heard for a while, and reports whether any is left.
func (y *yields) prune(now time.Duration) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	maps.DeleteFunc(y.byName,
		func(_ string, one *yield) bool { return now-max(one.refused, one.left, one.given) > rivalsFor })
	if len(y.byName) == 0 {
		y.byName = nil
	}
	return y.byName != nil
}

// owes returns how long a claim should wait before it enters.
func (y *yield) owes(now time.Duration) time.Duration {
	if now-y.refused >= rivalsFor && now-y.given < yieldEvery {
		return 0
	}
	return y.left + min(yieldLeast+2*y.took, yieldMost) - now
}

// give waits as long as a claim should before it enters, or until its request is cut, and returns how long that was at
// least.
func (y *yields) give(ctx *call, k *Keeper, c *driver.Claim) time.Duration {
	if c.Try {
		return 0
	}
	y.mu.Lock()
	now := k.clock.recent()
	var wait time.Duration
	if one := y.byName[c.Name]; one != nil {
		if wait = one.owes(now); wait > 0 {
			one.given = now
		}
	}
	y.mu.Unlock()
	if wait <= 0 || Pause(ctx, wait) != nil {
		return 0
	}
	return wait
}
