package drivertest

import (
	"slices"
	"time"
)

// What a run of several clients must have met, beside what befalls calls.
const (
	metKeep    = "a claim is kept"
	metBreak   = "a claim is removed by hand"
	metReclaim = "a claim of an earlier run is in the queue that its job enters"
	metLapse   = "a claim's lease runs out"
)

// met counts what befell the calls of a round, and what their answers tell of.
func (c *crowd) met(all []*call) {
	c.mu.Lock() // the other crowd looks at them meanwhile
	defer c.mu.Unlock()
	for i, one := range all {
		switch {
		case one.verb == "leave" && one.keep > 0 && one.err == nil:
			c.hits[metKeep]++
		case one.verb == "break" && one.err == nil:
			c.hits[metBreak]++
		case one.verb == "enter" && one.claim.Reclaim && one.err == nil && one.place.Ticket != 0:
			if earlierRun(all[:i], one) {
				c.hits[metReclaim]++
			}
		case c.isBrief(&one.claim) && one.confirms() && ranOut(all, one):
			c.hits[metLapse]++
		}
	}
}

// ranOut reports that calls went on after the lease that a call began, and that nobody took the claim out before or renewed
// it.
func ranOut(all []*call, one *call) bool {
	over, on := one.ended+one.claim.TTL, false
	for _, other := range all {
		switch {
		case other.began > over:
			on = true
		case other.mayEnd(&one.claim, one.place.Ticket), other.began > one.began && other.claim.ID == one.claim.ID:
			return false
		}
	}
	return on
}

// earlierRun reports that before a claim entered, another of its job had entered by another client, and had not left.
func earlierRun(before []*call, one *call) bool {
	return slices.ContainsFunc(before, func(e *call) bool {
		return e.verb == "enter" && e.err == nil && e.place.Ticket != 0 && e.ended < one.began && one.mayEnd(&e.claim, e.place.Ticket) &&
			!slices.ContainsFunc(before, func(l *call) bool { return l.verb == "leave" && l.claim.ID == e.claim.ID })
	})
}

// wanted returns what a run must meet.
func (c *crowd) wanted() []string {
	list := []string{requestLost, answerLost, requestLate, requestPast, metKeep, metReclaim}
	if c.brief < time.Second { // in a store of longer leases a round is mostly over before that
		list = append(list, metLapse)
	}
	if _, whole := c.clients[0].Driver.(*lateDriver); whole {
		list = append(list, requestTwice)
	}
	if c.breaker != nil {
		list = append(list, metBreak)
	}
	return list
}
