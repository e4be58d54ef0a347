package drivertest

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/stilelock/stile/driver"
)

// Some cases take leases that are to run out soon, and yet not before the case has looked. How long such a lease must be depends on
// the machine, and on what it does beside: so each case measures how late things are just now, and takes longer leases where they
// are late. What only a machine that is fast enough can show, or luck, is tried until it has happened.

const (
	patience  = 5 * time.Minute       // after which what was tried again and again has not happened
	slowest   = 8                     // how many times as long a lease is at most
	longLease = 5 * time.Second       // which no machine is too slow for
	roomFor   = 20                    // how many calls, as late as the latest of a few, come in time for a lease
	tick      = 10 * time.Millisecond // of the timers whose lateness is measured
)

// paced returns a lease that lasts where things are so late. Its parts are whole milliseconds, as
// stores count.
func paced(lease, late time.Duration) time.Duration {
	return max(lease, min(roomFor*late, slowest*lease, longLease).Round(100*time.Millisecond))
}

// lease returns the short lease of the case. It is the store's, and longer while the machine is slow.
func (r *run) lease() time.Duration {
	if r.paced == 0 {
		r.paced = paced(r.store.Lease, r.lateness())
		if r.paced > r.store.Lease {
			r.Logf("the machine is slow: short leases are %v instead of %v", r.paced, r.store.Lease)
		}
	}
	return r.paced
}

// slack is how much later than its lease a claim of the case may end: in some stores that grows with the lease.
func (r *run) slack() time.Duration { return r.store.Slack + r.lease() - r.store.Lease }

// runsOut is when the short lease of the case is over, at the latest.
func (r *run) runsOut() time.Duration { return r.lease() + r.slack() }

// ends waits until what the store ends by itself is over. If that is late, it has as much longer as a lease would have that was
// taken now: the machine may have become slow since the case began.
func (r *run) ends(bound time.Duration, what string, over func() bool) {
	r.Helper()
	if r.within(bound, over) {
		return
	}
	more := paced(r.store.Lease, r.lateness()) - r.store.Lease
	if !r.within(more, over) {
		r.Fatalf("not within %v: %s", bound+more, what)
	}
}

// lateness is by how much the latest of a few short timers was late, or how long the slowest of a few calls to the store took.
func (r *run) lateness() (worst time.Duration) {
	ctx, cancel := context.WithTimeout(r.ctx, longLease)
	defer cancel()
	took := func(call func()) {
		begin := time.Now()
		call()
		worst = max(worst, time.Since(begin))
	}
	for _, d := range []driver.Driver{r.a, r.b} {
		begin := time.Now()
		<-time.After(tick)
		worst = max(worst, time.Since(begin)-tick)
		c := r.claim()
		c.Name, c.Try = "drivertest/pace/"+rand.Text(), true
		took(func() { _, _ = d.Enter(ctx, c) }) // whatever it says: the case is about that
		took(func() { _ = d.Leave(ctx, &driver.Release{Claim: c}) })
	}
	return worst
}

// notStill is the condition under which a lease that is renewed again and again does not run out.
const notStill = "the machine does not stand still for a lease"

// inTime tries what needs a machine that is fast enough until it reports true. Each time it has leases as the machine is then.
func (r *run) inTime(what string, try func() bool) {
	r.Helper()
	for began := time.Now(); ; r.anewTime() {
		r.paced = 0
		if try() {
			return
		}
		if time.Since(began) >= patience {
			r.Fatalf("in %v it did not happen that %s", patience, what)
		}
	}
}

// waitsInTime enters a claim that must wait for another one, until the lease of that is over, at the earliest. It reports false if
// the claim holds and the lease may have been over by then: that says nothing.
func (r *run) waitsInTime(d driver.Driver, c *driver.Claim, over time.Time) (p driver.Place, inTime bool) {
	r.Helper()
	p = r.enter(d, c)
	if p.Holds && !time.Now().Before(over) {
		r.leave(d, c)
		return p, false
	}
	if p.Holds {
		r.Fatalf("enter = %+v; want a claim that waits", p)
	}
	return p, true
}

// leased enters a claim that must hold, and returns when its lease is over, at the earliest.
func (r *run) leased(d driver.Driver, c *driver.Claim) (over time.Time) {
	r.Helper()
	begin := time.Now()
	length := c.TTL
	if p := r.holds(d, c); p.TTL > 0 {
		length = min(length, p.TTL) // a session that is some time old
	}
	return begin.Add(length - r.traits.Granularity)
}
