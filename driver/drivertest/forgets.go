package drivertest

import (
	"fmt"

	"github.com/stilelock/stile/driver"
)

// A rememberer is a driver that reports how many claims it remembers, usually by a method of its tests.
type rememberer interface{ Remembered() int }

// forgets renews claims once more, as Detach does, and then abandons them. The next claims enter after the abandoned leases
// have ended.
func forgets(r *run) {
	d := r.store.Open(r)
	defer d.Close()
	tells, ok := d.(rememberer)
	if !ok || r.traits.InSession || r.traits.OwnClient {
		return
	}
	if a, ok := d.(driver.Alerter); ok {
		a.Alert(func(...string) {})
	}
	const rounds, each = 3, 100
	for round := range rounds {
		if round > 0 {
			r.pass(2*r.lease() + r.store.Slack)
		}
		for i := range each {
			c := r.brief()
			c.Name = fmt.Sprint(r.name, "/", round, "/", i)
			if _, err := r.reentered(r.ctx, d, c); err != nil { // the lease is short, and so is the time for an answer
				r.Fatalf("enter: %v; want a place", err)
			}
			_ = d.Renew(r.ctx, []*driver.Claim{c})
		}
	}
	if n, most := tells.Remembered(), rounds*each*5/6; n > most {
		r.Errorf("%d of %d claims are remembered; want %d at most, since the leases of the first %d are over", n, rounds*each, most, (rounds-1)*each)
	}
}
