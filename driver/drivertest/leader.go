package drivertest

import "github.com/stilelock/stile/driver"

// A Succession is a store of several servers that nobody else uses. One of them leads.
type Succession struct {
	// Open connects one more client to the store. The suite closes the client.
	Open func() driver.Driver

	// Succeeds makes another server the leader, and stops the former leader, which keeps its knowledge.
	Succeeds func()

	// GoesOn lets the former leader go on with its old knowledge, long after all leases in it have run out.
	GoesOn func()
}

var successionCases = []Case{
	{"LateLeader", "What a leader does that stood still and does not know that another leads now touches no claim that was renewed since.",
		0, lateLeader},
}

func lateLeader(r *run) {
	if r.store.Succession == nil {
		return
	}
	s := r.store.Succession(r)
	a, b := s.Open(), s.Open()
	r.Cleanup(func() {
		a.Close()
		b.Close()
	})
	holder, waiter, delayed, again := r.claim(), r.claim(), r.claim(), r.claim()
	delayed.Name, again.Name = r.name+"/delayed", r.name+"/again"
	delayed.Delay = r.delay(recovers)
	holder.Ticket, waiter.Ticket = r.holds(a, holder).Ticket, r.waits(a, waiter).Ticket
	delayed.Ticket, again.Ticket = r.holds(a, delayed).Ticket, r.holds(a, again).Ticket
	claims := []*driver.Claim{holder, waiter, delayed}
	renewed := func() bool {
		_, not := r.renewals(a, claims)
		return len(not) == 0
	}
	for range 2 { // the leases that the second leader gave must outlive it too
		s.Succeeds()
		r.until(recovers, "all claims are renewed", renewed)
		r.until(recovers, "a claim that enters again holds", func() bool {
			p, err := a.Enter(r.ctx, again)
			return err == nil && p.Holds && p.Ticket == again.Ticket
		})
		s.GoesOn()
		r.until(recovers, "all claims are renewed once more", renewed)
		if err := r.renew(a, again).Err; err != nil {
			r.Errorf("renewal of a claim that had entered again = %v; want nil", err)
		}
		for _, c := range append(claims, again) {
			if c == waiter {
				continue
			}
			if _, holds := r.tries(b, c); holds {
				r.Fatalf("two hold %q after the leader that was replaced went on", c.Name)
			}
		}
	}
	r.leave(a, holder)
	if p := r.holds(a, waiter); p.Ticket != waiter.Ticket {
		r.Errorf("the claim that waited holds by ticket %d; want %d, its own", p.Ticket, waiter.Ticket)
	}
	for _, c := range []*driver.Claim{waiter, delayed, again} {
		r.leave(a, c)
		r.until(r.store.Slack, "the name is free", func() bool {
			next, holds := r.tries(b, c)
			if holds {
				r.leave(b, next)
			}
			return holds
		})
	}
}
