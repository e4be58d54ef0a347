package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
)

var leaseCases = []Case{
	{"Expiry", "A claim whose lease ran out no longer counts.", 0, expiry},
	{"ExpiryOfWaiter", "A claim whose lease ran out no longer counts, whether it held or waited.", ordered, expiryOfWaiter},
	{"ExpiryIsFinal", "A claim that expired never returns: a late renewal is told ErrGone, and nothing is put back.",
		0, expiryIsFinal},
	{"RenewExtends", "Renew starts the leases of claims anew.", 0, renewExtends},
	{"RenewWaiter", "Renew starts the lease of a claim that waits anew, for its Wait.", ordered, renewWaiter},
	{"RenewBatch", "Renew answers each claim at the same index, and one claim's failure does not touch another's.", 0,
		renewBatch},
	{"RenewNothing", "Renew answers each claim at the same index.", 0, renewNothing},
	{"NeverShorter", "A lease is never made shorter.", 0, neverShorter},
}

var delayCases = []Case{
	{"Delay", "A lease that ran out while it held keeps the lock from others for the lock-delay.", delay, delayAfterExpiry},
	{"DelayIsLost", "A claim in its lock-delay has expired: a late renewal is told ErrGone.", delay, delayIsLost},
	{"DelayNotTold", "The lock-delay is for a claim that was told that it holds, not for one that waited.",
		ordered | delay, delayNotTold},
}

func expiry(r *run) {
	c := r.brief()
	start := time.Now()
	p := r.holds(r.a, c)
	r.ends(r.runsOut(), "the lock is free", r.free)
	length := r.lease()
	if r.traits.Clock == "session" {
		length = p.TTL // of a session that began some time ago
	}
	if early := length - time.Since(start); early > r.traits.Granularity {
		r.Errorf("the lock was free %v before the end of the lease", early)
	}
}

func expiryOfWaiter(r *run) {
	holder, waiter, third := r.claim(), r.brief(), r.claim()
	if !r.traits.FullWait {
		waiter.TTL = time.Minute // its lease while it waits counts
	}
	r.holds(r.a, holder)
	r.waits(r.b, waiter)
	r.waits(r.a, third)
	r.ends(r.runsOut(), "the waiter is gone", func() bool { return r.waits(r.a, third).Ahead == 1 })
	waiter.Ticket = 1
	_, err := r.b.Enter(r.ctx, waiter)
	r.gone("enter of the waiter", err)
}

func expiryIsFinal(r *run) {
	c := r.brief()
	c.Ticket = r.holds(r.a, c).Ticket
	next := r.claim()
	r.ends(r.runsOut(), "the next claim holds", func() bool { return r.enter(r.b, next).Holds })
	r.gone("renewal", r.renew(r.a, c).Err)
	r.gone("leave", r.a.Leave(r.ctx, &driver.Release{Claim: c}))
	_, err := r.a.Enter(r.ctx, c)
	r.gone("enter", err)
	r.holds(r.b, next)
	r.leave(r.b, next)
	if !r.soon(r.free) {
		r.Errorf("the name is taken; want nothing of the claim that expired")
	}
}

func renewExtends(r *run) {
	r.inTime(notStill, func() bool {
		c, leased := r.brief(), time.Now()
		c.Ticket = r.holds(r.a, c).Ticket
		other := r.claim()
		other.Try = true
		defer r.rid(r.a, c)
		defer r.rid(r.b, other)
		return r.steadily(leased, 3*r.lease(), "the claim holds while it is renewed", func() bool {
			a := r.renew(r.a, c)
			if a.Err == nil && (a.TTL <= 0 || a.TTL > c.TTL) {
				r.Errorf("the renewed lease is %v; want at most %v", a.TTL, c.TTL)
			}
			return a.Err == nil && !r.enter(r.b, other).Holds
		})
	})
}

func renewWaiter(r *run) {
	holder := r.claim()
	r.holds(r.a, holder)
	r.inTime(notStill, func() bool {
		waiter, third, leased := r.brief(), r.claim(), time.Now()
		if !r.traits.FullWait {
			waiter.TTL = time.Minute
		}
		r.waits(r.b, waiter)
		r.waits(r.a, third)
		defer r.rid(r.b, waiter)
		defer r.rid(r.a, third)
		return r.steadily(leased, 2*r.lease(), "the waiter stays while it is renewed", func() bool {
			a := r.renew(r.b, waiter)
			if a.Err == nil && a.TTL > waiter.Wait {
				r.Errorf("the renewed lease is %v; want at most %v", a.TTL, waiter.Wait)
			}
			return a.Err == nil && r.waits(r.a, third).Ahead == 2
		})
	})
}

func renewBatch(r *run) {
	var (
		cs   []*driver.Claim
		want []error
	)
	for i := range 12 {
		c := r.claim()
		c.Name += string(rune('a' + i))
		c.Ticket = r.holds(r.a, c).Ticket
		switch i % 5 { // the answers must differ from their reverse
		case 1:
			r.leave(r.a, c)
			want = append(want, driver.ErrGone)
		case 2:
			c.ID = r.claim().ID
			want = append(want, driver.ErrGone)
		default:
			want = append(want, nil)
		}
		cs = append(cs, c)
	}
	got := r.b.Renew(r.ctx, cs) // by another client than the one that entered them, if the store allows that
	if len(got) != len(want) {
		r.Fatalf("renew of %d claims has %d answers", len(want), len(got))
	}
	for i, answer := range got {
		if !errors.Is(answer.Err, want[i]) {
			r.Errorf("answer %d = %+v; want error %v", i, answer, want[i])
		}
		if answer.Err == nil && (answer.TTL <= 0 || answer.TTL > cs[i].TTL) {
			r.Errorf("answer %d = %+v; want a lease of at most %v", i, answer, cs[i].TTL)
		}
	}
}

func renewNothing(r *run) {
	if got := r.a.Renew(r.ctx, nil); len(got) != 0 {
		r.Errorf("renew of no claims has %d answers", len(got))
	}
}

func neverShorter(r *run) {
	c := r.claim()
	long := min(time.Minute, r.holds(r.a, c).TTL/2)
	c.TTL, c.Wait = r.lease(), r.lease()
	if a := r.renew(r.a, c); a.Err != nil || a.TTL < long {
		r.Errorf("renewal with a shorter lease = %+v; want the lease that is left", a)
	}
	if p := r.holds(r.a, c); p.TTL < long {
		r.Errorf("enter with a shorter lease = %+v; want the lease that is left", p)
	}
	neverShorterInBatch(r)
	other := r.claim()
	other.Try = true
	r.during(2*r.lease(), "the claim holds", func() bool { return !r.enter(r.b, other).Holds })
}

// neverShorterInBatch renews a claim twice in one batch. If a store first reads all claims, this reading is outdated at the
// second renewal.
func neverShorterInBatch(r *run) {
	longer := r.claim()
	longer.Name += "-twice"
	c := *longer
	c.TTL, c.Wait = 30*time.Second, 30*time.Second
	r.holds(r.a, &c)
	answers := r.a.Renew(r.ctx, []*driver.Claim{longer, &c})
	for i, a := range answers {
		if a.Err != nil {
			r.Fatalf("answer %d to a batch with one claim twice is %+v; want a lease", i, a)
		}
		// If a majority has answered, the other servers may not have the change yet.
		what := fmt.Sprintf("at least half is left of the %v that answer %d to a batch with one claim twice has", a.TTL, i)
		r.until(recovers, what, func() bool { return r.holds(r.a, &c).TTL >= a.TTL/2 })
	}
	r.leave(r.a, &c)
}

// delayed enters a claim with a short lease and a lock-delay, and returns when it asked for the claim. If the machine stands
// still for the whole lease before all servers have voted, the claim is gone for its own client too. Then delayed enters a
// claim on another name.
func (r *run) delayed(delay time.Duration) (c *driver.Claim, begun time.Time) {
	r.Helper()
	r.inTime(notStill, func() bool {
		c, begun = r.brief(), time.Now()
		c.Delay = delay
		var p driver.Place
		err := r.answered(r.a, c, func() (err error) {
			p, err = r.a.Enter(r.ctx, c)
			return err
		})
		if errors.Is(err, driver.ErrGone) && time.Since(begun) >= c.TTL {
			r.name += "+"
			return false
		}
		if err != nil || !p.Holds {
			r.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
		}
		c.Ticket = p.Ticket
		return true
	})
	return c, begun
}

func delayAfterExpiry(r *run) {
	c, start := r.delayed(2 * r.lease())
	r.ends(c.TTL+c.Delay+r.slack(), "the lock is free", r.free)
	if early := c.TTL + c.Delay - time.Since(start); early > 2*r.traits.Granularity {
		r.Errorf("the lock was free %v before the end of the lock-delay", early)
	}
}

func delayIsLost(r *run) {
	c, _ := r.delayed(time.Minute)
	marker := r.brief()
	marker.Name += "-marker"
	r.holds(r.a, marker) // its lease is as long and begins later, so it ends later
	other := r.claim()
	other.Name, other.Try = marker.Name, true
	r.ends(r.runsOut(), "the lease is over", func() bool { return r.enter(r.b, other).Holds })
	r.gone("renewal", r.renew(r.a, c).Err)
	_, err := r.a.Enter(r.ctx, c)
	r.gone("enter", err)
	r.gone("leave", r.a.Leave(r.ctx, &driver.Release{Claim: c}))
	if r.free() {
		r.Errorf("the lock is free; want it to stay taken for the lock-delay")
	}
}

func delayNotTold(r *run) {
	holder, waiter, third := r.claim(), r.brief(), r.claim()
	waiter.Delay = time.Minute
	r.holds(r.a, holder)
	r.waits(r.b, waiter)
	r.waits(r.a, third)
	r.ends(r.runsOut(), "the waiter is gone", func() bool { return r.waits(r.a, third).Ahead == 1 })
	r.leave(r.a, holder)
	r.holds(r.a, third)
}
