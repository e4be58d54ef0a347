package drivertest

import (
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Full is a store that nobody else uses and that can run out of room, such as a server whose memory is limited.
type Full struct {
	// Open connects one more client to the store. The suite closes the client.
	Open func() driver.Driver

	// Fill is called once, and leaves no room for anything new.
	Fill func()

	// Says is the text of a refusal.
	Says string

	// Renews says that renewing a claim, or keeping one that leaves, needs no more room. Without it, these calls may be
	// refused, which takes nothing away. Turns says that a waiting claim needs no more room when its turn comes.
	Renews, Turns bool
}

var fullCases = []Case{
	{"Full", "A store that is full refuses who comes, and says so; who is there leaves, and nobody else holds before.", 0, fullStore},
}

func fullStore(r *run) {
	if r.store.Full == nil {
		return
	}
	f := r.store.Full(r)
	a, b := f.Open(), f.Open()
	r.Cleanup(func() {
		a.Close()
		b.Close()
	})
	held, next, kept, comes := r.claim(), r.claim(), r.claim(), r.claim()
	kept.Name, comes.Name = r.name+"/kept", r.name+"/new"
	held.Ticket, kept.Ticket = r.holds(a, held).Ticket, r.holds(a, kept).Ticket
	if f.Turns {
		next.Ticket = r.waits(b, next).Ticket
	}
	f.Fill()

	_, err := b.Enter(r.ctx, comes)
	f.refuses(r, "a claim that is new", err)
	for what, c := range map[string]*driver.Claim{"the lock": held, "the lock that is to be kept": kept} {
		switch renewed := r.renew(a, c); {
		case f.Renews && (renewed.Err != nil || renewed.TTL < c.TTL/2):
			r.Fatalf("renewal when the store is full = %+v; want it for %v", renewed, c.TTL)
		case renewed.Err != nil:
			f.refuses(r, "a renewal", renewed.Err)
		}
		if _, got := r.tries(b, c); got {
			r.Fatalf("another holds %s after its renewal in a store that is full", what)
		}
	}
	if f.Renews {
		if err := a.Leave(r.ctx, &driver.Release{Claim: kept, Keep: time.Minute}); err != nil {
			r.Fatalf("leave when the store is full, with the lock kept taken = %v; want nil", err)
		}
		if _, got := r.tries(b, kept); got {
			r.Fatalf("another holds a lock that is kept taken in a store that is full")
		}
	}
	r.leave(a, held)
	if f.Turns {
		if p, err := r.turn(r.ctx, b, next); err != nil || !p.Holds {
			r.Fatalf("the next in a store that is full = %+v, %v; want it to hold", p, err)
		}
		r.leave(b, next)
	}
}

// refuses fails unless an error is a refusal that names its reason, and that does not pass by itself.
func (f *Full) refuses(r *run, what string, err error) {
	r.Helper()
	if err == nil || driver.OutcomeOf(err) != driver.OutcomeRefused || driver.IsUnreachable(err) || !strings.Contains(err.Error(), f.Says) {
		r.Errorf("%s when the store is full = %v; want a refusal that says %q", what, err, f.Says)
	}
}
