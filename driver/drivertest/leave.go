package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

var leaveCases = []Case{
	{"LeaveFrees", "Leave takes a claim out of its queue.", 0, leaveFrees},
	{"LeaveTwice", "The error is ErrGone if the claim is not there.", 0, leaveTwice},
	{"LeaveOfAnother", "No client can touch another's claim.", 0, leaveOfAnother},
	{"LeaveWaiter", "Leave takes a claim out of its queue, whether it holds or waits.", ordered, leaveWaiter},
	{"LeaveDuringRenew", "Leave may be called while the claim is being renewed: whichever comes first, the claim is gone " +
		"and is not brought back.", 0, leaveDuringRenew},
	{"KeepStays", "With Keep, a claim that holds stays that long, then ends.", 0, keepStays},
	{"KeepWithoutDelay", "With Keep, a claim ends without its lock-delay.", delay, keepWithoutDelay},
	{"KeepIsFinal", "A claim that is kept can no longer be renewed.", 0, keepIsFinal},
	{"KeepWaiter", "With Keep, a claim that holds stays; one that waits leaves.", ordered, keepWaiter},
	{"KeepLetsIn", "With Keep, a claim that holds stays that long; then the next one that waits is let in.",
		ordered, keepLetsIn},
	{"KeepLetsInBehindPermits", "With Keep, a claim that holds stays that long; then the next one that waits is let in.",
		ordered | permits, keepLetsInBehindPermits},
}

func leaveFrees(r *run) {
	for range 3 {
		c := r.claim()
		c.Delay = r.delay(time.Minute) // it counts only after an unclean loss
		r.holds(r.a, c)
		r.leave(r.a, c)
	}
	r.holds(r.b, r.claim())
}

func leaveTwice(r *run) {
	c := r.claim()
	r.holds(r.a, c)
	r.leave(r.a, c)
	r.gone("leave the second time", r.a.Leave(r.ctx, &driver.Release{Claim: c}))
	r.gone("leave of a claim that never entered", r.a.Leave(r.ctx, &driver.Release{Claim: r.claim()}))
	r.gone("renewal of a claim that left", r.renew(r.a, c).Err)
}

func leaveOfAnother(r *run) {
	holder, stranger := r.claim(), r.claim()
	ticket := r.holds(r.a, holder).Ticket
	stranger.Client, stranger.Ticket = holder.Client, ticket
	r.gone("leave with the holder's ticket and another id", r.b.Leave(r.ctx, &driver.Release{Claim: stranger}))
	r.gone("renewal with the holder's ticket and another id", r.renew(r.b, stranger).Err)
	if err := r.renew(r.a, holder).Err; err != nil {
		r.Errorf("renewal of the holder = %v; want nil", err)
	}
	r.waits(r.b, r.claim())
}

func leaveWaiter(r *run) {
	holder, waiter, third := r.claim(), r.claim(), r.claim()
	r.holds(r.a, holder)
	r.waits(r.b, waiter)
	r.waits(r.a, third)
	r.leave(r.b, waiter)
	if p := r.waits(r.a, third); p.Ahead != 1 {
		r.Errorf("the claim behind it has %d ahead; want 1", p.Ahead)
	}
	r.leave(r.a, holder)
	r.holds(r.a, third)
	r.leave(r.a, third)
	if !r.soon(r.free) {
		r.Errorf("the name is taken after all claims have left")
	}
}

// leaveDuringRenew renews a claim in two calls at once while the claim leaves.
func leaveDuringRenew(r *run) {
	const rounds = 40
	other := r.claim()
	other.Name += "/other"
	r.holds(r.a, other) // which is renewed at the same time, and stays
	for round := range rounds {
		c := r.claim()
		if round%2 == 0 {
			c.Ticket = r.holds(r.a, c).Ticket // otherwise as a client that lost the answer
		} else {
			r.holds(r.a, c)
		}
		batch := [][]*driver.Claim{{c}, {other, c}, {c, other}}[round%3]
		var both sync.WaitGroup
		start := make(chan struct{})
		for range 2 {
			both.Go(func() {
				<-start
				for i, a := range r.a.Renew(r.ctx, batch) {
					if gone := errors.Is(a.Err, driver.ErrGone); a.Err != nil && (!gone || batch[i] == other) {
						r.Errorf("round %d: renewal %d of %d = %v; want nil, or ErrGone for the claim that leaves",
							round, i, len(batch), a.Err)
					}
				}
			})
		}
		var left error
		both.Go(func() {
			<-start
			for range rand.N(round + 1) {
				runtime.Gosched() // so that it comes at different moments of the renewal
			}
			left = r.a.Leave(r.ctx, &driver.Release{Claim: c})
		})
		close(start)
		both.Wait()
		if left != nil {
			r.Fatalf("round %d: leave = %v; want nil", round, left)
		}
		r.gone("renewal after leave", r.renew(r.a, c).Err)
		if c.Ticket != 0 {
			_, err := r.a.Enter(r.ctx, c)
			r.gone("enter after leave", err)
		}
		next := r.claim()
		r.holds(r.b, next)
		r.leave(r.b, next)
	}
}

// kept makes a claim that has left and is kept, and returns the time before its Leave.
func (r *run) kept(c *driver.Claim, length time.Duration) time.Time {
	r.Helper()
	r.holds(r.a, c)
	start := time.Now()
	r.leaveKept(r.a, c, length)
	return start
}

func keepStays(r *run) {
	length := 2 * r.lease()
	start := r.kept(r.claim(), length)
	r.ends(length+r.slack(), "the lock is free", r.free)
	if early := length - time.Since(start); early > r.traits.Granularity {
		r.Errorf("the lock was free %v before its time", early)
	}
}

func keepWithoutDelay(r *run) {
	c := r.claim()
	c.Delay = time.Minute
	r.kept(c, r.lease())
	r.ends(r.runsOut(), "the lock is free", r.free)
}

func keepIsFinal(r *run) {
	c := r.claim()
	r.kept(c, 30*time.Second)
	r.gone("renewal", r.renew(r.a, c).Err)
	r.gone("leave", r.a.Leave(r.ctx, &driver.Release{Claim: c}))
	_, err := r.a.Enter(r.ctx, c)
	r.gone("enter", err)
	if r.free() {
		r.Errorf("the lock is free; want it to stay taken")
	}
}

func keepWaiter(r *run) {
	holder, waiter := r.claim(), r.claim()
	r.holds(r.a, holder)
	r.waits(r.b, waiter)
	r.leaveKept(r.b, waiter, 30*time.Second)
	r.leave(r.a, holder)
	if !r.soon(r.free) {
		r.Errorf("the lock is taken; want nothing left of a claim that waited")
	}
}

// keepLetsIn lets a holder leave long before the end of its lease. The waiters know that lease.
func keepLetsIn(r *run) {
	for round := range 2 {
		holder, first, last := r.claim(), r.claim(), r.claim()
		r.holds(r.a, holder)
		p := r.waits(r.b, first)
		first.Ticket = p.Ticket
		q := r.waits(r.a, last)
		last.Ticket = q.Ticket
		r.keptThenNext(round, holder, first, p)
		r.leave(r.b, first)
		ctx, cancel := context.WithTimeout(r.ctx, sleeps*r.store.Slack)
		if _, err := r.turnOnly(ctx, r.a, last, q); err != nil {
			r.Fatalf("the one that waits behind it = %v; want its turn", err)
		}
		cancel()
		r.leave(r.a, last)
	}
}

// keepLetsInBehindPermits lets one of several holders leave, and not the one at the head.
func keepLetsInBehindPermits(r *run) {
	holders := []*driver.Claim{r.permit(1, 3), r.permit(1, 3), r.permit(1, 3)}
	for _, c := range holders {
		r.holds(r.a, c)
	}
	waiter := r.permit(1, 3)
	p := r.waits(r.b, waiter)
	waiter.Ticket = p.Ticket
	r.keptThenNext(0, holders[1], waiter, p)
}

// keptThenNext lets a holder leave and be kept for a short lease. A waiting claim must then hold, by notifications and by
// the time in its place at which to ask again. In every second round the claim does not listen yet when the holder leaves.
func (r *run) keptThenNext(round int, kept, waiter *driver.Claim, p driver.Place) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, r.lease()+sleeps*r.store.Slack)
	defer cancel()
	next := make(chan error, 1)
	wait := func() {
		_, err := r.turnOnly(ctx, r.b, waiter, p)
		next <- err
	}
	if round%2 == 0 {
		go wait()
		for range 20 {
			poll(ctx) // so that, mostly, it listens
		}
	}
	r.leaveKept(r.a, kept, r.lease())
	if round%2 == 1 {
		go wait()
	}
	if err := <-next; err != nil {
		r.Fatalf("round %d: the one that waits = %v after more than %v; want it to hold after %v",
			round, err, sleeps*r.store.Slack, r.lease())
	}
}
