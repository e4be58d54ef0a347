package drivertest

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
)

// Some cases need leases that run out soon, but not before the case has checked something. How long such a lease must be
// depends on the machine and its load. So each case measures how late timers and calls are now, and takes longer leases if
// they are late. A case that needs a fast machine, or luck, tries until it succeeds.

const (
	patience  = 5 * time.Minute       // bound of the tries
	slowest   = 8                     // the largest factor of a lease
	longLease = 5 * time.Second       // no machine is too slow for it
	roomFor   = 20                    // a lease has room for this many calls, each as late as the latest of a few
	wakeCalls = 10                    // a wake has room for this many calls, each as long as the slowest of a few, beside its bound
	tick      = 10 * time.Millisecond // the length of the timers whose lateness is measured
)

// paced returns a lease that is long enough for a measured lateness, in whole milliseconds, as stores count.
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

// slack is how long after its lease a claim of the case may end: in some stores this time grows with the lease.
func (r *run) slack() time.Duration { return r.store.Slack + r.lease() - r.store.Lease }

// runsOut bounds the time until the short lease of the case has ended.
func (r *run) runsOut() time.Duration { return r.lease() + r.slack() }

// ends waits until something has come at the store, such as the end of a lease. If the store is late, ends waits longer, as for a
// lease that begins now: the machine may have become slow since the case began.
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

// lateness is the larger of two times: by how much the latest of a few short timers was late, and how long the slowest of a
// few calls to the store took.
func (r *run) lateness() (worst time.Duration) {
	for range 2 {
		begin := time.Now()
		<-time.After(tick)
		worst = max(worst, time.Since(begin)-tick)
	}
	return max(worst, r.slowestCall())
}

// slowestCall is how long the slowest of a few calls to the store takes now.
func (r *run) slowestCall() (worst time.Duration) {
	ctx, cancel := context.WithTimeout(r.ctx, longLease)
	defer cancel()
	took := func(call func()) {
		begin := time.Now()
		call()
		worst = max(worst, time.Since(begin))
	}
	for _, d := range []driver.Driver{r.a, r.b} {
		c := r.claim()
		c.Name, c.Try = "drivertest/pace/"+rand.Text(), true
		took(func() { _, _ = d.Enter(ctx, c) }) // the result does not matter: the case itself checks it
		took(func() { _ = d.Leave(ctx, &driver.Release{Claim: c}) })
	}
	return worst
}

// A wake is the time within which a client must learn of something at the store.
type wake struct {
	r     *run
	bound time.Duration
	begun time.Time
	over  <-chan struct{} // of [awake.For]
}

// waking begins a wake.
func (r *run) waking(bound time.Duration) *wake {
	return &wake{r: r, bound: bound, begun: time.Now(), over: awake.For(bound)}
}

// in fails the case if the wake is over. In a store that is busy a wake may last longer: by some calls to the store, each as long
// as they take now.
func (w *wake) in(what string) {
	w.r.Helper()
	took := time.Since(w.begun)
	if !awake.Over(w.over) {
		return
	}
	if most := w.bound + wakeCalls*w.r.slowestCall(); took > most {
		w.r.Errorf("%s after %v; want at most %v", what, took.Round(time.Millisecond), most.Round(time.Millisecond))
	}
}

// notStill is the condition under which a steadily renewed lease does not run out.
const notStill = "the machine does not stand still for a lease"

// inTime repeats a step that needs a fast machine until it reports true. Each time it first measures the machine again.
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

// waitsInTime enters a claim that must wait for another one at least until the other's lease is over. It reports false if
// the claim holds and that lease may have been over by then, which proves nothing.
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

// leased enters a claim that must hold, and returns the earliest end of its lease.
func (r *run) leased(d driver.Driver, c *driver.Claim) (over time.Time) {
	r.Helper()
	begin := time.Now()
	length := c.TTL
	if p := r.holds(d, c); p.TTL > 0 {
		length = min(length, p.TTL) // of a session that began some time ago
	}
	return begin.Add(length - r.traits.Granularity)
}
