package judge

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// lapses returns the steps by which leases may have run out during some calls on one name, each with the time in which it
// may have come. A lease that a call restarted lasts at least its full time from the begin of that call. So once the call is
// answered, the claim did not run out by an earlier lease.
func lapses(all []*Call, early time.Duration) []*Call {
	var (
		list  []*Call
		lives = map[string]*life{}
		order []*life
	)
	for _, one := range all {
		if one.Verb == "leave" && one.Keep > 0 && !driver.NotApplied(one.Err) {
			list = append(list, &Call{Verb: "expire", Claim: one.Claim, Keep: one.Keep, Began: one.Began + one.Keep - early})
		}
		l := lives[one.Claim.ID]
		if one.Verb == "enter" && l == nil && !driver.NotApplied(one.Err) {
			l = &life{claim: one.Claim, from: one.Began + one.lease() - early}
			lives[one.Claim.ID], order = l, append(order, l)
		}
		switch {
		case l == nil:
		case one.confirms():
			list = append(list, l.until(one.Ended)...)
			l.from = max(l.from, one.Began+one.lease()-early)
		case one.Verb == "enter" && one.Claim.Ticket == 0 && !one.Answered():
			l.again++
		}
	}
	for _, l := range order {
		list = append(list, l.until(0)...)
	}
	return list
}

// A life is the life of a claim.
type life struct {
	claim driver.Claim
	from  time.Duration // when its lease may end
	again int           // how often it may have entered again by an Enter of unknown outcome
}

// until returns the steps by which the lease may have ended before a moment, or, if that is 0, at any time.
func (l *life) until(moment time.Duration) []*Call {
	var list []*Call
	if moment == 0 || l.from < moment {
		for range 1 + l.again {
			list = append(list, &Call{Verb: "expire", Claim: l.claim, Began: l.from, until: moment})
		}
	}
	return list
}
