package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

var enterCases = []Case{
	{"EnterAtTail", "Enter puts the claim at the tail of its queue and starts its lease: TTL if it holds, else Wait.",
		ordered, enterAtTail},
	{"RetryOfTheNext", "A claim that waits notices the end of the one before it that waits, or else of any that holds.",
		ordered, retryOfTheNext},
	{"RetryOfPermits", "A claim that waits notices the end of the one before it that waits, or else of any that holds.",
		ordered | permits, retryOfPermits},
	{"RetryOfReaders", "A claim that waits notices the end of the one before it that waits, or else of any that holds.",
		ordered | shared, retryOfReaders},
	{"RetryAfterDeadNext", "A claim that is told of its turn and is dead delays nobody beyond its lease.",
		ordered, retryAfterDeadNext},
	{"EnterAgain", "Enter finds the claim where it stands, so it may be repeated after a lost reply.", 0, enterAgain},
	{"EnterAgainElsewhere", "Enter finds the claim where it stands, also by another client that waited for the name a moment ago.",
		0, enterAgainElsewhere},
	{"EnterAgainCountsOnce", "Enter finds the claim where it stands, so it may be repeated after a lost reply.",
		permits, enterAgainCountsOnce},
	{"EnterKeepsWaiting", "Entering again is how a waiting claim stays alive.", ordered, enterKeepsWaiting},
	{"TryHolds", "A claim with Try enters if it holds at once.", 0, tryHolds},
	{"TryKeepsNothing",
		"A claim with Try enters only if it holds at once; if not, nothing is kept and the place says so.", 0,
		tryKeepsNothing},
	{"TryBehindWaiter", "A claim with Try enters only if it holds at once.", ordered | shared, tryBehindWaiter},
	{"TicketFound", "A claim with a Ticket has entered before: it is found.", 0, ticketFound},
	{"TicketGone", "A claim with a Ticket that is not found gets ErrGone, and nothing is put back.", 0, ticketGone},
	{"TicketsRise", "The ticket rises with every claim that enters the name, from 1 to below 1<<53.", fencing, ticketsRise},
	{"Capacity", "The error is a CapacityError if the queue has another capacity.", permits, capacityConflict},
	{"CapacityForgotten", "An empty queue forgets its capacity.", permits, capacityForgotten},
	{"Reclaim", "Entering with Reclaim removes the claim that an earlier run of the same Owner left in this queue.",
		0, reclaim},
	{"ReclaimOthers", "Reclaim removes claims of the same Owner alone.", 0, reclaimOthers},
	{"ReclaimKept", "Reclaim does not remove a claim that left and is kept.", 0, reclaimKept},
	{"ReclaimMany", "Entering with Reclaim removes the claims that an earlier run of the same Owner left in this queue.",
		ordered | shared, reclaimMany},
	{"ReclaimMeanwhile", "Entering with Reclaim removes also a claim of an earlier run that enters at the same time, and first.",
		ordered, reclaimMeanwhile},
	{"ReclaimOwn", "Reclaim removes what other clients left, not what this run holds.", 0, reclaimOwn},
}

func enterAtTail(r *run) {
	first, second, third := r.claim(), r.claim(), r.claim()
	first.Record = "the first"
	p := r.holds(r.a, first)
	if p.TTL <= 0 || p.TTL > first.TTL {
		r.Errorf("the holder's lease is %v; want at most %v", p.TTL, first.TTL)
	}
	if p.Ahead != 0 {
		r.Errorf("the holder has %d ahead; want 0", p.Ahead)
	}
	second.Wait /= 2
	q := r.waits(r.b, second)
	if q.Ahead != 1 {
		r.Errorf("the second claim has %d ahead; want 1", q.Ahead)
	}
	if q.TTL <= 0 || q.TTL > second.TTL || q.TTL > second.Wait && !r.traits.FullWait {
		r.Errorf("the waiter's lease is %v; want at most %v", q.TTL, second.Wait)
	}
	if q.Retry < 0 || q.Retry > first.TTL {
		r.Errorf("the waiter is to ask again in %v; want at most %v", q.Retry, first.TTL)
	}
	if b := q.Blocker; b.Ticket != 0 &&
		(b.Ticket != p.Ticket || b.Record != first.Record || !b.Holds || b.Weight != first.Weight) {
		r.Errorf("the blocker is %+v; want the claim with ticket %d and record %q", b, p.Ticket, first.Record)
	}
	if q := r.waits(r.a, third); q.Ahead != 2 {
		r.Errorf("the third claim has %d ahead; want 2", q.Ahead)
	}
}

// sooner is a lease that is shorter than the other claims' leases.
const sooner = time.Minute

// retries lets a claim of some weight wait behind others, one of which has a shorter lease. With early, the claim must ask
// again when that lease ends; otherwise only later. A store that informs its clients when a lease ends may leave the time
// out.
func (r *run) retries(early bool, weight, capacity int64, short int, ahead ...int64) {
	r.Helper()
	var cs []*driver.Claim
	for i, w := range append(ahead, weight) {
		c := r.permit(w, capacity)
		if i == short {
			c.TTL, c.Wait = sooner, sooner
		}
		p := r.enter(r.a, c)
		cs = append(cs, c)
		switch {
		case i < len(ahead):
		case p.Holds:
			r.Errorf("%d of %d behind %v holds", w, capacity, ahead)
		case p.Retry != 0 && early != (p.Retry <= sooner):
			r.Errorf("%d of %d behind %v, of which claim %d runs out first, in %v, is to ask again in %v; want before that: %v",
				w, capacity, ahead, short, sooner, p.Retry, early)
		}
	}
	for _, c := range cs {
		r.leave(r.a, c)
	}
}

func retryOfTheNext(r *run) {
	const all = driver.All
	r.retries(true, all, all, 0, all)
	r.retries(false, all, all, 0, all, all)
	r.retries(true, all, all, 1, all, all)
	r.retries(false, all, all, 0, slices.Repeat([]int64{all}, 12)...)
	r.retries(false, all, all, 10, slices.Repeat([]int64{all}, 12)...)
	r.retries(true, all, all, 11, slices.Repeat([]int64{all}, 12)...)
}

func retryOfPermits(r *run) {
	for _, n := range []int{2, 12} {
		ones := slices.Repeat([]int64{1}, n)
		for _, short := range []int{0, n - 1} {
			r.retries(true, 1, int64(n), short, ones...)
			r.retries(true, 2, int64(n), short, ones...)
			r.retries(false, 1, int64(n), short, append(ones, 1)...)
		}
		r.retries(true, 1, int64(n), n, append(ones, 1)...)
	}
}

func retryOfReaders(r *run) {
	const all = driver.All
	r.retries(true, 1, all, 0, all)
	r.retries(false, 1, all, 0, all, 1, 1)
	r.retries(true, 1, all, 1, all, 1)
	r.retries(true, 1, all, 3, 1, 1, 1, all)
	r.retries(false, 1, all, 0, 1, 1, 1, all)
	r.retries(true, all, all, 0, 1, 1)
}

func retryAfterDeadNext(r *run) {
	first, dead, last := r.claim(), r.brief(), r.claim()
	r.holds(r.a, first)
	r.waits(r.a, dead)
	p := r.waits(r.b, last)
	r.leave(r.a, first) // which informs the dead claim
	r.turnBehindDead(last, p)

	r.inTime("two claims wait before the lease of the one that holds is over", func() bool {
		first, dead, last := r.brief(), r.brief(), r.claim()
		over := r.leased(r.a, first)
		if _, in := r.waitsInTime(r.a, dead, over); !in {
			return false
		}
		p, in := r.waitsInTime(r.b, last, over)
		if !in {
			return false // and the dead claim is out before the next try, or before the lock that waits for it
		}
		r.turnBehindDead(last, p)
		return true
	})
}

// turnBehindDead waits until a claim behind dead claims holds.
func (r *run) turnBehindDead(c *driver.Claim, p driver.Place) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, 2*r.lease()+sleeps*r.store.Slack)
	defer cancel()
	if _, err := r.turnOnly(ctx, r.b, c, p); err != nil {
		r.Fatalf("a claim behind one that is dead = %v; want its turn", err)
	}
	r.leave(r.b, c)
}

func enterAgain(r *run) {
	first, second := r.claim(), r.claim()
	was := r.holds(r.a, first)
	if is := r.holds(r.a, first); is.Ticket != was.Ticket {
		r.Errorf("the holder's ticket is %d the second time; want %d", is.Ticket, was.Ticket)
	}
	if is := r.holds(r.b, first); is.Ticket != was.Ticket {
		r.Errorf("the holder's ticket is %d on another client; want %d", is.Ticket, was.Ticket)
	}
	was = r.waits(r.b, second)
	if is := r.waits(r.b, second); is.Ticket != was.Ticket || is.Ahead != was.Ahead {
		r.Errorf("the waiter's place is %+v the second time; want %+v", is, was)
	}
	r.leave(r.a, first)
	if is := r.holds(r.b, second); is.Ticket != was.Ticket && r.traits.Ordered {
		r.Errorf("the ticket is %d once it holds; want %d", is.Ticket, was.Ticket)
	}
	r.leave(r.b, second)
	if !r.soon(r.free) {
		r.Errorf("the name is taken after each claim has left once")
	}
}

func enterAgainElsewhere(r *run) {
	r.waited(r.b, r.claim())
	c := r.claim()
	was := r.holds(r.a, c)
	if is := r.holds(r.b, c); is.Ticket != was.Ticket {
		r.Errorf("the ticket is %d on another client; want %d", is.Ticket, was.Ticket)
	}
	c.Ticket = was.Ticket
	if err := r.renew(r.b, c).Err; err != nil {
		r.Errorf("renewal on the other client = %v; want nil", err)
	}
	r.leave(r.a, c)
	if !r.soon(r.free) {
		r.Errorf("the name is taken after the claim has left")
	}
}

// waited lets a claim of a client wait, hold and leave.
func (r *run) waited(d driver.Driver, c *driver.Claim) {
	r.Helper()
	holder := r.permit(c.Capacity, c.Capacity)
	r.holds(r.a, holder)
	r.waits(d, c)
	ctx, cancel := context.WithTimeout(r.ctx, heldUp)
	_, _ = d.Await(ctx, c) // in vain
	cancel()
	r.leave(r.a, holder)
	r.until(recovers, "the claim holds", func() bool { return r.enter(d, c).Holds })
	r.leave(d, c)
	r.until(r.store.Slack, "the name is free", r.free)
}

func enterAgainCountsOnce(r *run) {
	first := r.permit(1, 2)
	r.holds(r.a, first)
	r.holds(r.a, first)
	r.holds(r.b, r.permit(1, 2))
	r.waits(r.b, r.permit(1, 2))
}

func enterKeepsWaiting(r *run) {
	r.holds(r.a, r.claim())
	r.inTime(notStill, func() bool {
		waiter, leased := r.brief(), time.Now()
		ticket := r.waits(r.b, waiter).Ticket
		waiter.Ticket = ticket
		defer r.rid(r.b, waiter)
		return r.steadily(leased, 3*r.lease(), "the waiter keeps its place", func() bool {
			p, err := r.b.Enter(r.ctx, waiter)
			return err == nil && !p.Holds && p.Ticket == ticket
		})
	})
}

func tryHolds(r *run) {
	c := r.claim()
	c.Try = true
	p := r.holds(r.a, c)
	if again := r.holds(r.a, c); again.Ticket != p.Ticket {
		r.Errorf("the ticket is %d the second time; want %d", again.Ticket, p.Ticket)
	}
	r.waits(r.b, r.claim())
}

func tryKeepsNothing(r *run) {
	holder, try := r.claim(), r.claim()
	holder.Record = "the holder"
	ticket := r.holds(r.a, holder).Ticket
	try.Try = true
	p := r.waits(r.b, try)
	if p.Ticket != 0 {
		r.Errorf("the ticket of a try that did not enter is %d; want 0", p.Ticket)
	}
	if p.Ahead != 1 && r.traits.Ordered {
		r.Errorf("the try has %d ahead; want 1", p.Ahead)
	}
	if b := p.Blocker; b.Ticket != 0 && (b.Ticket != ticket || b.Record != holder.Record) {
		r.Errorf("the blocker is %+v; want ticket %d and record %q", b, ticket, holder.Record)
	}
	r.gone("leave of a try that did not enter", r.b.Leave(r.ctx, &driver.Release{Claim: try}))
	r.gone("renewal of a try that did not enter", r.renew(r.b, try).Err)
	r.leave(r.a, holder)
	r.holds(r.a, r.claim())
}

func tryBehindWaiter(r *run) {
	r.holds(r.a, r.shared())
	r.waits(r.a, r.claim())
	try := r.shared()
	try.Try = true
	if p := r.waits(r.b, try); p.Ticket != 0 || p.Ahead != 2 {
		r.Errorf("a try behind a waiting writer = %+v; want ticket 0 and 2 ahead", p)
	}
}

func ticketFound(r *run) {
	c := r.claim()
	c.Ticket = r.holds(r.a, c).Ticket
	if p := r.holds(r.a, c); p.Ticket != c.Ticket {
		r.Errorf("the ticket is %d; want %d", p.Ticket, c.Ticket)
	}
}

func ticketGone(r *run) {
	c := r.claim()
	c.Ticket = r.holds(r.a, c).Ticket
	r.leave(r.a, c)
	p, err := r.a.Enter(r.ctx, c)
	if !errors.Is(err, driver.ErrGone) {
		r.Fatalf("enter of a claim that left = %+v, %v; want ErrGone", p, err)
	}
	if !r.soon(r.free) {
		r.Errorf("the name is taken after the claim was told that it is gone")
	}
}

func ticketsRise(r *run) {
	last := int64(0)
	next := func(d driver.Driver, c *driver.Claim, after string) {
		r.Helper()
		p := r.enter(d, c)
		if !r.traits.Ordered && !p.Holds { // some nodes may not know of the release yet
			r.until(r.store.Slack, "the claim holds", func() bool {
				p = r.enter(d, c)
				return p.Holds
			})
		}
		if p.Ticket <= last || p.Ticket >= 1<<53 {
			r.Errorf("the ticket is %d after %s; want above %d and below %d", p.Ticket, after, last, int64(1)<<53)
		}
		last = p.Ticket
	}
	for range 20 {
		c := r.claim()
		next(r.a, c, "a release that left the queue empty")
		r.leave(r.a, c)
	}
	c := r.brief()
	next(r.b, c, "a release by another client")
	r.ends(r.runsOut(), "the lease runs out", r.free)
	last++ // the claim that noticed had a ticket of its own
	holder := r.claim()
	next(r.a, holder, "an expiry")
	if r.traits.Ordered {
		for range 5 {
			next(r.b, r.claim(), "a claim that waits")
		}
	}
}

func capacityConflict(r *run) {
	c := r.permit(1, 5)
	r.holds(r.a, c)
	for _, other := range []*driver.Claim{r.permit(1, 3), r.permit(1, 7), r.claim()} {
		for _, try := range []bool{false, true} {
			other.Try = try
			_, err := r.b.Enter(r.ctx, other)
			if e, ok := errors.AsType[*driver.CapacityError](err); !ok || *e != (driver.CapacityError{Have: 5,
				Want: other.Capacity}) {
				r.Errorf("enter with capacity %d, try %v = %v; want a CapacityError with 5 and %[1]d", other.Capacity,
					try, err)
			}
		}
		r.gone("leave of a claim that was refused", r.b.Leave(r.ctx, &driver.Release{Claim: other}))
	}
	r.holds(r.b, r.permit(4, 5))
	r.waits(r.b, r.permit(1, 5))
}

func capacityForgotten(r *run) {
	for _, capacity := range []int64{5, 3, driver.All, 2} {
		c := r.permit(1, capacity)
		r.holds(r.a, c)
		r.leave(r.a, c)
	}
	c := r.permit(1, 4)
	c.TTL, c.Wait = r.lease(), r.lease()
	r.holds(r.a, c)
	next := r.permit(1, 6)
	r.ends(r.runsOut(), "another capacity is accepted once the queue has run empty", func() bool {
		_, err := r.b.Enter(r.ctx, next)
		return err == nil
	})
}

func reclaim(r *run) {
	if r.traits.OwnClient { // the claims of an earlier run ended with it
		return
	}
	earlier, later := r.claim(), r.claim()
	earlier.Owner, earlier.Reclaim = "job/é 1", true
	later.Owner, later.Reclaim = "job/é 1", true
	was := r.holds(r.a, earlier)
	is := r.holds(r.b, later)
	if is.Ticket <= was.Ticket && r.traits.Fencing != driver.NoFencing {
		r.Errorf("the ticket of the later run is %d; want above %d", is.Ticket, was.Ticket)
	}
	r.gone("renewal by the earlier run", r.renew(r.a, earlier).Err)
	r.gone("leave by the earlier run", r.a.Leave(r.ctx, &driver.Release{Claim: earlier}))
	if again := r.holds(r.b, later); again.Ticket != is.Ticket {
		r.Errorf("the ticket of the later run is %d the second time; want %d", again.Ticket, is.Ticket)
	}
}

func reclaimOwn(r *run) {
	holds, queues := r.claim(), r.claim()
	queues.Client = holds.Client
	holds.Owner, holds.Reclaim = "job", true
	queues.Owner, queues.Reclaim = "job", true
	r.holds(r.a, holds)
	r.waits(r.a, queues)
	if err := r.renew(r.a, holds).Err; err != nil {
		r.Errorf("renewal of what the run holds = %v; want nil", err)
	}
}

// reclaimKept lets the next run of a job enter while a claim of the last run keeps the lock, so that the work is not
// repeated too soon.
func reclaimKept(r *run) {
	kept := r.claim()
	kept.Owner, kept.Reclaim = "job", true
	r.kept(kept, 30*time.Second)
	for _, try := range []bool{true, false} {
		later := r.claim()
		later.Owner, later.Reclaim, later.Try = "job", true, try
		r.waits(r.b, later)
		if again := r.enter(r.b, later); again.Holds {
			r.Errorf("the later run holds the second time; want it to wait for as long as the lock is kept")
		}
		_ = r.b.Leave(r.ctx, &driver.Release{Claim: later}) // if it has a place
	}
	if r.free() {
		r.Errorf("the lock is free; want it to stay taken")
	}
}

func reclaimOthers(r *run) {
	holder, same, other, none := r.claim(), r.claim(), r.claim(), r.claim()
	holder.Owner = "one"
	same.Owner = "one" // without Reclaim
	other.Owner, other.Reclaim = "other", true
	none.Reclaim = true // without Owner
	r.holds(r.a, holder)
	r.waits(r.b, same)
	r.waits(r.b, other)
	r.waits(r.b, none)
	if err := r.renew(r.a, holder).Err; err != nil {
		r.Errorf("renewal of the holder = %v; want nil", err)
	}
}
