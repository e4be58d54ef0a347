package claims

import (
	"maps"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// In a store without a queue, the next holder is the client that asks at the right moment. Usually that is the last holder:
// it knows first that the lock is free, and could keep all others out without end. So it lets others ask first: whenever it
// knows of any, and now and then otherwise.

const (
	yieldLeast = 500 * time.Microsecond // plus two round trips: for others to get the message and to ask
	yieldMost  = 50 * time.Millisecond
	yieldEvery = 200 * time.Millisecond // between yields without a sign of others
	rivalsFor  = time.Second            // after a refused claim
)

// yields remember which names other processes want.
type yields struct {
	mu     sync.Mutex // guards the fields below
	byName map[string]*yield
}

type yield struct {
	refused time.Duration // when a claim of this client was last refused
	left    time.Duration // when this client's last claim left the store
	took    time.Duration // the length of that Leave
	given   time.Duration // when this client last yielded
}

// ofLocked returns the entry of a name, new if there is none.
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

// left notes that a claim has left the store, by a Leave that began at began.
func (y *yields) left(name string, began, now time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	one := y.ofLocked(name, now)
	one.left, one.took = now, now-began
}

// prune forgets names without recent news, and reports whether any name remains.
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

// give waits for the time that a claim owes before it enters, or until its request is cut, and returns the least time that
// it waited.
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
