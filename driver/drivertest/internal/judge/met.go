package judge

import (
	"slices"
	"time"
)

// The events that the answers of a history may show.
const (
	MetKeep    = "a claim is kept"
	MetBreak   = "a claim is removed by hand"
	MetReclaim = "a claim of an earlier run is in the queue that its job enters"
	MetLapse   = "a claim's lease runs out"
)

// Met returns the events that the answers show, each as often as it happened. Claims with a brief lease may run out.
func (h *History) Met(brief time.Duration) (list []string) {
	for i, one := range h.Calls {
		switch {
		case one.Verb == "leave" && one.Keep > 0 && one.Err == nil:
			list = append(list, MetKeep)
		case one.Verb == "break" && one.Err == nil:
			list = append(list, MetBreak)
		case one.Verb == "enter" && one.Claim.Reclaim && one.Err == nil && one.Place.Ticket != 0:
			if earlierRun(h.Calls[:i], one) {
				list = append(list, MetReclaim)
			}
		case one.Claim.TTL == brief && one.confirms() && ranOut(h.Calls, one):
			list = append(list, MetLapse)
		}
	}
	return list
}

// ranOut reports whether calls went on after the lease that a call began, and nobody had removed or renewed the claim.
func ranOut(all []*Call, one *Call) bool {
	over, on := one.Ended+one.Claim.TTL, false
	for _, other := range all {
		switch {
		case other.Began > over:
			on = true
		case other.mayEnd(&one.Claim, one.Place.Ticket), other.Began > one.Began && other.Claim.ID == one.Claim.ID:
			return false
		}
	}
	return on
}

// earlierRun reports whether, before a claim entered, another claim of its job had entered by another client and had not
// left.
func earlierRun(before []*Call, one *Call) bool {
	return slices.ContainsFunc(before, func(e *Call) bool {
		return e.Verb == "enter" && e.Err == nil && e.Place.Ticket != 0 && e.Ended < one.Began && one.mayEnd(&e.Claim, e.Place.Ticket) &&
			!slices.ContainsFunc(before, func(l *Call) bool { return l.Verb == "leave" && l.Claim.ID == e.Claim.ID })
	})
}
