package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// A counted is a driver that counts the claims of each principal, and refuses a new one to a principal that has too many. It counts
// a claim that enters or is renewed here, until the claim leaves or its lease would end. Claims of other servers count when they
// are renewed here. So each server has a count of its own, and a principal has at most the bound at each.
//
// A principal at its bound enters nothing more, but what it has it may keep: those claims are not all remembered, so the memory
// has a bound too.
//
// A client chooses what it asks for, so a claim goes on counting if the store's answer leaves the lock closed: after its lease by a
// lock-delay, after its release for Keep, or since the request named another ticket.
type counted struct {
	driver.Driver
	limits *limits
	most   int // claims of a principal

	mu    sync.Mutex // guards the fields below
	of    map[claimKey]*count
	sizes map[string]int // by principal
	sweep known.Limit
	swept time.Time
}

// A count is a claim that counts.
type count struct {
	principal string
	ticket    int64         // by which the store has it; 0 while unknown
	delay     time.Duration // for which its lock may be closed after its lease
	left      bool          // it was released, and its lock may be kept
	until     time.Time     // when neither its lease nor Keep closes the lock any more
}

func newCounted(d driver.Driver, l *limits) *counted {
	return &counted{Driver: d, limits: l, most: l.claims, of: map[claimKey]*count{}, sizes: map[string]int{}}
}

// Enter is [driver.Driver.Enter]. The server's own claims have no caller, and do not count.
func (cs *counted) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	who := callerOf(ctx)
	if who.s == nil {
		return cs.Driver.Enter(ctx, c)
	}
	added, err := cs.enters(who.Name, c)
	if err != nil {
		return driver.Place{}, err
	}
	p, err := cs.Driver.Enter(ctx, c)
	switch {
	case err == nil && p.Ticket != 0:
		cs.lasts(who, c, p.Ticket, p.TTL, added)
	case added && (err == nil || driver.NotApplied(err)):
		cs.forget(c)
	case errors.Is(err, driver.ErrGone):
		cs.gone(c)
	}
	return p, err
}

// enters counts a claim before it enters, or refuses it. A claim that counts already, or is in the store, is not refused.
func (cs *counted) enters(who string, c *driver.Claim) (added bool, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.of[claimKey{c.Name, c.ID}] != nil {
		return false, nil
	}
	// A store without a queue has nothing of a claim that waits, which has the ticket 1 there.
	there := c.Ticket > 1 || c.Ticket == 1 && cs.Traits().Ordered
	if added = cs.addLocked(who, c); !added && !there {
		err = cs.limits.exceeds(ofOne+boundClaims, later, "%s already has %d claims, which hold or wait", who, cs.most)
	}
	return added, err
}

// addLocked counts a claim for the longest that it may last, unless its principal has too many.
func (cs *counted) addLocked(who string, c *driver.Claim) bool {
	// A principal at its bound may ask often.
	if cs.sizes[who] >= cs.most && time.Since(cs.swept) >= time.Second || cs.sweep.Reached(len(cs.of)) {
		cs.sweepLocked()
	}
	if cs.sizes[who] >= cs.most {
		return false
	}
	cs.of[claimKey{c.Name, c.ID}] = &count{principal: who, delay: c.Delay, until: time.Now().Add(c.TTL + c.Delay)}
	cs.sizes[who]++
	return true
}

// sweepLocked forgets the claims that are over.
func (cs *counted) sweepLocked() {
	cs.swept = time.Now()
	maps.DeleteFunc(cs.of, func(_ claimKey, n *count) bool {
		ended := !cs.swept.Before(n.until)
		if ended {
			cs.lessLocked(n.principal)
		}
		return ended
	})
	cs.sweep.Swept(len(cs.of))
}

func (cs *counted) lessLocked(principal string) {
	if cs.sizes[principal]--; cs.sizes[principal] == 0 {
		delete(cs.sizes, principal)
	}
}

// Renew is [driver.Driver.Renew].
func (cs *counted) Renew(ctx context.Context, claims []*driver.Claim) []driver.Renewal {
	renewals := cs.Driver.Renew(ctx, claims)
	who := callerOf(ctx)
	for i, c := range claims {
		switch r := &renewals[i]; {
		case r.Err == nil:
			cs.lasts(who, c, c.Ticket, r.TTL, false)
		case errors.Is(r.Err, driver.ErrGone):
			cs.gone(c)
		}
	}
	return renewals
}

// lasts notes a lease that the store has confirmed. It makes the time of a claim that counted before no shorter, since the store
// shortens no lease. The caller is nobody if the server renews a claim by itself.
func (cs *counted) lasts(who *caller, c *driver.Claim, ticket int64, lease time.Duration, added bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := cs.of[claimKey{c.Name, c.ID}]
	if n == nil {
		if who.s == nil || !cs.addLocked(who.Name, c) {
			return
		}
		n, added = cs.of[claimKey{c.Name, c.ID}], true
	}
	n.ticket, n.delay = cmp.Or(ticket, n.ticket), max(n.delay, c.Delay)
	if until := time.Now().Add(lease + n.delay); added || until.After(n.until) {
		n.until = until
	}
}

// Leave is [driver.Driver.Leave].
func (cs *counted) Leave(ctx context.Context, r *driver.Release) error {
	err := cs.Driver.Leave(ctx, r)
	switch {
	case r.Keep > 0 && (err == nil || !driver.NotApplied(err)):
		cs.keeps(r, err == nil)
	case err == nil:
		cs.forget(r.Claim)
	case errors.Is(err, driver.ErrGone):
		cs.gone(r.Claim)
	}
	return err
}

// keeps notes that a claim keeps its lock for a time, or, if that is not certain, that it may.
func (cs *counted) keeps(r *driver.Release, certain bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := cs.of[claimKey{r.Claim.Name, r.Claim.ID}]
	if n == nil {
		return
	}
	n.left = true
	if until := time.Now().Add(r.Keep); certain || until.After(n.until) {
		n.until = until
	}
}

// gone notes that a request did not find a claim. Its lock may be closed all the same.
func (cs *counted) gone(c *driver.Claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := cs.of[claimKey{c.Name, c.ID}]
	if n != nil && !n.left && n.delay == 0 && (c.Ticket == 0 || c.Ticket == n.ticket) {
		cs.forgetLocked(c, n)
	}
}

// forget notes that the store no longer has a claim.
func (cs *counted) forget(c *driver.Claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if n := cs.of[claimKey{c.Name, c.ID}]; n != nil {
		cs.forgetLocked(c, n)
	}
}

func (cs *counted) forgetLocked(c *driver.Claim, n *count) {
	delete(cs.of, claimKey{c.Name, c.ID})
	cs.lessLocked(n.principal)
}
