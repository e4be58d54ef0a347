package drivertest

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// lapses returns the steps by which leases may have run out in the course of some calls on one name, each in the time in
// which it may have come. A lease that a call began anew lasts until its time after the begin of that call, at the least;
// so once the call is answered, the claim did not run out by a lease from before.
func lapses(all []*call, early time.Duration) []*call {
	var (
		list  []*call
		lives = map[string]*life{}
		order []*life
	)
	for _, one := range all {
		if one.verb == "leave" && one.keep > 0 && !driver.NotApplied(one.err) {
			list = append(list, &call{verb: "expire", claim: one.claim, keep: one.keep, began: one.began + one.keep - early})
		}
		l := lives[one.claim.ID]
		if one.verb == "enter" && l == nil && !driver.NotApplied(one.err) {
			l = &life{claim: one.claim, from: one.began + one.lease() - early}
			lives[one.claim.ID], order = l, append(order, l)
		}
		switch {
		case l == nil:
		case one.confirms():
			list = append(list, l.until(one.ended)...)
			l.from = max(l.from, one.began+one.lease()-early)
		case one.verb == "enter" && one.claim.Ticket == 0 && !one.answered():
			l.again++
		}
	}
	for _, l := range order {
		list = append(list, l.until(0)...)
	}
	return list
}

// A life is that of a claim.
type life struct {
	claim driver.Claim
	from  time.Duration // when its lease may end
	again int           // how often it may have entered anew, by an Enter of unknown outcome
}

// until returns the steps by which the lease may have ended before a moment, or, if that is 0, at any time.
func (l *life) until(moment time.Duration) []*call {
	var list []*call
	if moment == 0 || l.from < moment {
		for range 1 + l.again {
			list = append(list, &call{verb: "expire", claim: l.claim, began: l.from, until: moment})
		}
	}
	return list
}
