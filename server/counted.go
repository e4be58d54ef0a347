package server

import (
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
	until     time.Time
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
		cs.lasts(who, c)
	case errors.Is(err, driver.ErrGone), added && (err == nil || driver.NotApplied(err)):
		cs.ends(c, 0)
	}
	return p, err
}

// enters counts a claim before it enters, or refuses it. A claim that counts already, or has a ticket, exists: it is not refused.
func (cs *counted) enters(who string, c *driver.Claim) (added bool, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.of[claimKey{c.Name, c.ID}] != nil {
		return false, nil
	}
	if added = cs.addLocked(who, c); !added && c.Ticket == 0 {
		err = cs.limits.exceeds(ofOne+boundClaims, later, "%s already has %d claims, which hold or wait", who, cs.most)
	}
	return added, err
}

// addLocked counts a claim, unless its principal has too many.
func (cs *counted) addLocked(who string, c *driver.Claim) bool {
	// A principal at its bound may ask often.
	if cs.sizes[who] >= cs.most && time.Since(cs.swept) >= time.Second || cs.sweep.Reached(len(cs.of)) {
		cs.sweepLocked()
	}
	if cs.sizes[who] >= cs.most {
		return false
	}
	cs.of[claimKey{c.Name, c.ID}] = &count{who, over(c)}
	cs.sizes[who]++
	return true
}

// over returns when a claim is over whose lease begins now.
func over(c *driver.Claim) time.Time { return time.Now().Add(c.TTL + c.Delay) }

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
		switch err := renewals[i].Err; {
		case err == nil:
			cs.lasts(who, c)
		case errors.Is(err, driver.ErrGone):
			cs.ends(c, 0)
		}
	}
	return renewals
}

// lasts notes that a lease begins. The caller is nobody if the server renews a claim by itself.
func (cs *counted) lasts(who *caller, c *driver.Claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if n := cs.of[claimKey{c.Name, c.ID}]; n != nil {
		n.until = over(c)
	} else if who.s != nil {
		cs.addLocked(who.Name, c)
	}
}

// Leave is [driver.Driver.Leave].
func (cs *counted) Leave(ctx context.Context, r *driver.Release) error {
	err := cs.Driver.Leave(ctx, r)
	if err == nil || errors.Is(err, driver.ErrGone) {
		cs.ends(r.Claim, r.Keep)
	}
	return err
}

// ends notes that a claim is gone, or keeps its lock for a time.
func (cs *counted) ends(c *driver.Claim, keep time.Duration) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := cs.of[claimKey{c.Name, c.ID}]
	switch {
	case n == nil:
	case keep > 0:
		n.until = time.Now().Add(keep)
	default:
		delete(cs.of, claimKey{c.Name, c.ID})
		cs.lessLocked(n.principal)
	}
}
