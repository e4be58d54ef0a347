package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
)

var awaitCases = []Case{
	{"AwaitLeave", "Await returns when the place of a claim that waits may have changed.", ordered, awaitLeave},
	{"AwaitLeaveOfReaders", "Leave wakes those who hold because of it.", ordered | shared, awaitReaders},
	{"AwaitExpiry", "Its place says how soon to ask again, so a claim ahead that runs out delays nobody for longer.",
		ordered, awaitExpiry},
	{"AwaitHolds", "A place from Await that holds says that the claim holds.", ordered, awaitHolds},
	{"AwaitDoesNotRenew", "Await does not renew.", ordered, awaitDoesNotRenew},
	{"AwaitContext", "Await ends when its context ends.", ordered, awaitContext},
	{"LostNotification", "A lost notification costs no more than the time until the caller asks again.", ordered,
		lostNotification},
	{"AwaitTooLate", "Await returns when the place may have changed, also if that was before the call.", ordered,
		awaitTooLate},
	{"Adopt", "A driver that has adopted a waiting claim learns of its turn, and the lease does not restart.", ordered, adopt},
	{"AwaitQueue", "Claims hold in the order in which they entered, each woken by the one before.", ordered, awaitQueue},
}

type told struct {
	place driver.Place
	err   error
}

// awaiting waits in the background for a claim's turn. The claim must have entered.
func (r *run) awaiting(d driver.Driver, c *driver.Claim) <-chan told {
	ch := make(chan told, 1)
	go func() {
		p, err := r.turn(r.ctx, d, c)
		ch <- told{p, err}
	}()
	return ch
}

// woken waits until a waiter reports that it holds, in a wake.
func (r *run) woken(ch <-chan told, w *wake) {
	r.Helper()
	t := <-ch
	if t.err != nil || !t.place.Holds {
		r.Fatalf("the waiter = %+v, %v; want a place that holds", t.place, t.err)
	}
	w.in("the waiter learned that it holds")
}

func awaitLeave(r *run) {
	for range 3 {
		holder, waiter := r.claim(), r.claim()
		r.holds(r.a, holder)
		waiter.Ticket = r.waits(r.b, waiter).Ticket
		ch := r.awaiting(r.b, waiter)
		for range 10 {
			poll(r.ctx) // so that, in some rounds at least, the waiter is inside Await
		}
		w := r.waking(r.store.Wake)
		r.leave(r.a, holder)
		r.woken(ch, w)
		r.leave(r.b, waiter)
	}
}

func awaitReaders(r *run) {
	writer := r.claim()
	r.holds(r.a, writer)
	var waiting []<-chan told
	for i := range 6 {
		c := r.shared()
		d := r.a
		if i%2 == 0 {
			d = r.b
		}
		c.Ticket = r.waits(d, c).Ticket
		waiting = append(waiting, r.awaiting(d, c))
	}
	for range 10 {
		poll(r.ctx)
	}
	w := r.waking(r.store.Wake)
	r.leave(r.b, writer) // by another client than the one that entered it
	for _, ch := range waiting {
		r.woken(ch, w)
	}
}

func awaitExpiry(r *run) {
	r.inTime("a claim waits before the lease of the one that holds is over", func() bool {
		dead, waiter := r.brief(), r.claim()
		over := r.leased(r.a, dead)
		bound := r.runsOut()
		w := r.waking(bound)
		p, in := r.waitsInTime(r.b, waiter, over)
		if !in {
			return false
		}
		waiter.Ticket = p.Ticket
		r.woken(r.awaiting(r.b, waiter), w)
		return true
	})
}

func awaitHolds(r *run) {
	holder, waiter := r.claim(), r.claim()
	r.holds(r.a, holder)
	waiter.Ticket = r.waits(r.b, waiter).Ticket
	r.leave(r.a, holder)
	p, err := r.b.Await(r.ctx, waiter)
	if err != nil {
		r.Fatalf("await = %v; want nil", err)
	}
	if p.Holds && p.Ticket != waiter.Ticket {
		r.Errorf("the place has ticket %d; want %d", p.Ticket, waiter.Ticket)
	}
	r.waits(r.a, r.claim())
	if p := r.holds(r.b, waiter); p.Ticket != waiter.Ticket {
		r.Errorf("the ticket is %d; want %d", p.Ticket, waiter.Ticket)
	}
}

func awaitDoesNotRenew(r *run) {
	r.holds(r.a, r.claim())
	waiter := r.brief()
	waiter.Ticket = r.waits(r.b, waiter).Ticket
	witness := r.claim()
	r.waits(r.a, witness)
	r.ends(r.runsOut(), "the waiter is gone", func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, r.lease()/10)
		defer cancel()
		if p, _ := r.b.Await(ctx, waiter); p.Holds {
			r.Fatalf("await = %+v; want no place that holds", p)
		}
		return r.waits(r.a, witness).Ahead == 1
	})
	_, err := r.b.Enter(r.ctx, waiter)
	r.gone("enter of the waiter", err)
}

func awaitContext(r *run) {
	r.holds(r.a, r.claim())
	waiter := r.claim()
	waiter.Ticket = r.waits(r.b, waiter).Ticket
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	for over := awake.For(50*time.Millisecond + r.store.Slack); ; {
		p, err := r.b.Await(ctx, waiter)
		if p.Holds {
			r.Fatalf("await = %+v; want no place that holds", p)
		}
		if awake.Over(over) {
			r.Errorf("await ended more than %v after its context", r.store.Slack)
		}
		if ctx.Err() == nil && err == nil {
			continue // early, which is allowed
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("await = %v; want the context's error", err)
		}
		break
	}
	if p := r.waits(r.b, waiter); p.Ticket != waiter.Ticket {
		r.Errorf("the ticket is %d after await ended; want %d", p.Ticket, waiter.Ticket)
	}
}

func lostNotification(r *run) {
	holder, waiter := r.claim(), r.claim()
	r.holds(r.a, holder)
	waiter.Ticket = r.waits(r.b, waiter).Ticket
	r.leave(r.a, holder) // nobody is in Await
	if p := r.holds(r.b, waiter); p.Ticket != waiter.Ticket {
		r.Errorf("the ticket is %d; want %d", p.Ticket, waiter.Ticket)
	}
}

func awaitTooLate(r *run) {
	holder, waiter := r.claim(), r.claim()
	r.holds(r.a, holder)
	waiter.Ticket = r.waits(r.b, waiter).Ticket
	r.leave(r.a, holder)
	w := r.waking(r.store.Wake)
	if _, err := r.b.Await(r.ctx, waiter); err != nil {
		r.Fatalf("await = %v; want nil", err)
	}
	w.in("await returned")
}

// adopt needs a [driver.Adopter]; by any other driver, each claim learns of its turn.
func adopt(r *run) {
	one, is := r.a.(driver.Adopter)
	other, _ := r.b.(driver.Adopter)
	if !is {
		return
	}
	holder, waiter, brief := r.claim(), r.claim(), r.brief()
	r.holds(r.a, holder)
	waiter.Ticket, brief.Ticket = r.waits(r.a, waiter).Ticket, r.waits(r.a, brief).Ticket
	over := r.runsOut()
	adopted := func(d driver.Adopter, c *driver.Claim) (p driver.Place, err error) {
		err = r.answered(r.b, c, func() (err error) {
			p, err = d.Adopt(r.ctx, c)
			return err
		})
		if err == nil && (p.Ticket != c.Ticket || p.TTL > c.TTL) {
			r.Fatalf("adopt = %+v; want the ticket %d and the rest of the lease", p, c.Ticket)
		}
		return p, err
	}
	r.ends(over, "a claim that is adopted again and again is gone", func() bool {
		_, err := adopted(other, brief)
		if err != nil && !errors.Is(err, driver.ErrGone) {
			r.Fatalf("adopt = %v; want its place, or that it is gone", err)
		}
		return err != nil
	})
	waits := func(d driver.Driver, by driver.Adopter) {
		for ended := false; !ended; { // it may return early, but not each time
			if p, err := adopted(by, waiter); err != nil || p.Holds {
				r.Fatalf("adopt = %+v, %v; want its place behind the holder", p, err)
			}
			ctx, cancel := context.WithTimeout(r.ctx, 100*time.Millisecond)
			p, err := d.Await(ctx, waiter)
			if ended = ctx.Err() != nil && r.ctx.Err() == nil; p.Holds || err != nil && !ended {
				r.Fatalf("await of the adopted claim = %+v, %v; want that it goes on", p, err)
			}
			cancel()
		}
	}
	waits(r.b, other)
	waits(r.a, one)
	waits(r.b, other)
	ch := make(chan told, 1)
	go func() {
		p, err := r.b.Await(r.ctx, waiter)
		if err == nil && !p.Holds {
			p, err = r.turn(r.ctx, r.b, waiter)
		}
		ch <- told{p, err}
	}()
	w := r.waking(r.store.Wake)
	r.leave(r.a, holder)
	r.woken(ch, w)
	if p, err := adopted(one, waiter); err != nil || !p.Holds {
		r.Errorf("adopt of a claim that holds = %+v, %v; want that it holds", p, err)
	}
	if _, err := one.Adopt(r.ctx, r.claim()); driver.OutcomeOf(err) != driver.OutcomeRefused {
		r.Errorf("adopt of a claim without a ticket = %v; want a refusal", err)
	}
}

func awaitQueue(r *run) {
	holder := r.claim()
	r.holds(r.a, holder)
	var (
		claims  []*driver.Claim
		waiting []<-chan told
	)
	for i := range 6 {
		c := r.claim()
		d := r.b
		if i%2 == 0 {
			d = r.a
		}
		c.Ticket = r.waits(d, c).Ticket
		claims, waiting = append(claims, c), append(waiting, r.awaiting(d, c))
	}
	for i, ch := range waiting {
		w := r.waking(r.store.Wake)
		r.leave(r.a, holder)
		r.woken(ch, w)
		holder = claims[i]
		for j, later := range waiting[i+1:] {
			select {
			case t := <-later:
				r.Fatalf("claim %d = %+v, %v while claim %d holds", i+1+j, t.place, t.err, i)
			default:
			}
		}
	}
}
