package drivertest

import (
	"errors"
	"sync"

	"github.com/stilelock/stile/driver"
)

// reclaimMany lets an earlier run leave more claims than a store may remove with one request.
func reclaimMany(r *run) {
	for _, try := range []bool{true, false} {
		for range 70 {
			earlier := r.shared()
			earlier.Owner = "job"
			r.enter(r.a, earlier)
		}
		later := r.claim()
		later.Owner, later.Reclaim, later.Try = "job", true, try
		r.holds(r.b, later)
		r.leave(r.b, later)
	}
}

// reclaimMeanwhile repeatedly lets an earlier run and a later one enter at the same time. A driver that looks for the
// earlier run with one request, and enters with another, meets it between the two.
func reclaimMeanwhile(r *run) {
	holder := r.claim()
	r.holds(r.a, holder)
	for round := range 60 {
		if round == 30 {
			r.leave(r.a, holder) // from now on, the first claim that enters holds
		}
		earlier, later := r.claim(), r.claim()
		earlier.Owner = "job"
		later.Owner, later.Reclaim = "job", true
		var (
			group   sync.WaitGroup
			was, is driver.Place
			gone    error
			failed  error
		)
		group.Go(func() { was, gone = r.a.Enter(r.ctx, earlier) })
		group.Go(func() { is, failed = r.b.Enter(r.ctx, later) })
		group.Wait()
		switch {
		case failed != nil:
			r.Fatalf("enter of the later run = %v; want a place", failed)
		case gone != nil && !errors.Is(gone, driver.ErrGone):
			r.Fatalf("enter of the earlier run = %v; want a place, or ErrGone", gone)
		case gone == nil && was.Ticket < is.Ticket:
			r.gone("renewal by the earlier run", r.renew(r.a, earlier).Err)
		}
		r.leave(r.b, later)
		_ = r.a.Leave(r.ctx, &driver.Release{Claim: earlier}) // if it entered second
	}
}
