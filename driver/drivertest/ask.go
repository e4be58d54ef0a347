package drivertest

import (
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// The cases of a holder that is asked for its lock.
var askCases = []Case{
	{"Ask", "With Ask, the claim stays as it is, and its renewals tell from then on that somebody has asked once more.", 0, ask},
	{"AskGone", "Only a claim that holds can be asked for: one that waits, has left, or ran out, is ErrGone.", 0, askGone},
	{"AskLack", "A driver that cannot ask a holder says so, and removes nothing.", 0, askLack},
}

// asks returns a function that asks for a claim, or nil if the driver cannot ask.
func (r *run) asks() func(ticket int64) (driver.ClaimInfo, error) {
	breaker, ok := r.b.(driver.Breaker)
	if !ok || !r.traits.Asks {
		return nil
	}
	return func(ticket int64) (driver.ClaimInfo, error) {
		return breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Ticket: ticket, Ask: true})
	}
}

// asked checks how many requests for the lock a claim's renewals report.
func (r *run) asked(what string, c *driver.Claim, want int64) {
	r.Helper()
	if got := r.renew(r.a, c); got.Err != nil || got.Asks != want {
		r.Errorf("renewal of the holder %s = %+v; want %d askings", what, got, want)
	}
}

func ask(r *run) {
	ask := r.asks()
	if ask == nil {
		return
	}
	holder := r.claim()
	holder.Record = "the holder"
	holder.Ticket = r.holds(r.a, holder).Ticket
	r.asked("before anybody asked", holder, 0)
	for i, ticket := range []int64{0, holder.Ticket} {
		s, err := ask(ticket)
		if err != nil || s.Ticket != holder.Ticket || !s.Holds || !r.traits.ShortRecord && s.Record != holder.Record {
			r.Errorf("break with ticket %d and ask = %+v, %v; want ticket %d as it holds", ticket, s, err, holder.Ticket)
		}
		for range 2 { // the first answer may have been lost
			r.asked("that was asked", holder, int64(i)+1)
		}
	}
	if p := r.enter(r.a, holder); !p.Holds || p.Ticket != holder.Ticket {
		r.Errorf("enter of the holder that was asked = %+v; want to hold ticket %d still", p, holder.Ticket)
	}
	r.leave(r.a, holder)
	next := r.claim()
	next.Ticket = r.holds(r.a, next).Ticket
	r.asked("that nobody has asked", next, 0)
}

func askGone(r *run) {
	ask := r.asks()
	if ask == nil {
		return
	}
	_, err := ask(0)
	r.gone("asking for a name without claims", err)
	holder, waiter := r.claim(), r.claim()
	holder.Ticket = r.holds(r.a, holder).Ticket
	if waiter.Ticket = r.waits(r.a, waiter).Ticket; r.traits.Ordered {
		_, err = ask(waiter.Ticket)
		r.gone("asking for a claim that waits", err)
		r.leave(r.a, waiter) // without an order, the store may know nothing of it
	}
	_, err = ask(waiter.Ticket + 1)
	r.gone("asking for a ticket that nobody has", err)
	r.asked("of whom nobody has asked", holder, 0)
	r.leaveKept(r.a, holder, time.Minute)
	_, err = ask(0)
	r.gone("asking for a claim that has left and is kept", err)
}

func askLack(r *run) {
	breaker, ok := r.b.(driver.Breaker)
	if !ok || r.traits.Asks {
		return
	}
	holder := r.claim()
	r.holds(r.a, holder)
	if _, err := breaker.Break(r.ctx, &driver.BreakRequest{Name: r.name, Ask: true}); !errors.Is(err, driver.ErrUnsupported) {
		r.Errorf("break with ask = %v; want ErrUnsupported, as the traits lack it", err)
	}
	if a := r.renew(r.a, holder); a.Err != nil {
		r.Errorf("renewal of the holder that was asked = %v; want nil", a.Err)
	}
}
