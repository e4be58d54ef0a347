package drivertest

import (
	"slices"
	"time"
)

// What the answers of a history may tell of.
const (
	metKeep    = "a claim is kept"
	metBreak   = "a claim is removed by hand"
	metReclaim = "a claim of an earlier run is in the queue that its job enters"
	metLapse   = "a claim's lease runs out"
)

// met returns what the answers tell of, as often as they do. Claims whose lease is brief may run out.
func (h *history) met(brief time.Duration) (list []string) {
	for i, one := range h.calls {
		switch {
		case one.verb == "leave" && one.keep > 0 && one.err == nil:
			list = append(list, metKeep)
		case one.verb == "break" && one.err == nil:
			list = append(list, metBreak)
		case one.verb == "enter" && one.claim.Reclaim && one.err == nil && one.place.Ticket != 0:
			if earlierRun(h.calls[:i], one) {
				list = append(list, metReclaim)
			}
		case one.claim.TTL == brief && one.confirms() && ranOut(h.calls, one):
			list = append(list, metLapse)
		}
	}
	return list
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
