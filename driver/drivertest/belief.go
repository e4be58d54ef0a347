package drivertest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// A belief is a time in which a client may believe that its claim holds: from an answer that says so until the lease ends of
// which the client knows, or until a call began that may end the claim.
type belief struct {
	claim       *driver.Claim
	ticket      int64
	from, until time.Duration
}

// mayEnd reports that a call may take a claim out of its queue, or have it be kept.
func (c *call) mayEnd(claim *driver.Claim, ticket int64) bool {
	if c.verb == "leave" {
		return c.claim.ID == claim.ID
	}
	if driver.NotApplied(c.err) {
		return false
	}
	switch c.verb {
	case "break":
		return c.claim.Ticket == 0 || c.claim.Ticket == ticket // without a ticket, of whom it was is the judge's to say
	case "enter":
		return c.claim.Reclaim && c.claim.Owner != "" && c.claim.Owner == claim.Owner && c.claim.Client != claim.Client
	}
	return false
}

// confirms reports that a call began the lease of its claim anew.
func (c *call) confirms() bool {
	return c.err == nil && (c.verb == "renew" || c.verb == "enter" && c.place.Ticket != 0)
}

// lease is how long the lease of a claim lasts, at the least, that the call began. A driver may let a claim in on a lease that it
// had ready, of which up to a half is over, and tells what is left, unless its answer is lost.
func (c *call) lease() time.Duration {
	least := c.claim.TTL / 2
	switch {
	case c.verb != "enter":
	case c.err != nil:
		return least
	case c.place.TTL >= least:
		return min(c.place.TTL, c.claim.TTL)
	}
	return c.claim.TTL
}

// A knowledge is what the client of a claim knows of it.
type knowledge struct {
	ticket int64
	holds  bool
	lease  time.Duration // when it ends, at the earliest
}

// learn has the client of a claim hear the answer to a call.
func (k *knowledge) learn(one *call, early time.Duration) {
	before := k.lease
	if one.confirms() {
		k.lease = max(k.lease, one.began+one.lease()-early)
	}
	switch {
	case one.err != nil || one.verb == "leave":
	case one.verb == "renew": // of a claim that ran out and came back by a late request, it does not say that it holds
		k.holds = k.holds && one.ended < before
	default:
		k.holds = one.place.Holds
		if one.place.Ticket != 0 {
			k.ticket = one.place.Ticket
		}
	}
}

// beliefs returns when which claim was believed to hold. While a claim is kept, it holds too.
func (h *history) beliefs() []*belief {
	var (
		list  []*belief
		known = map[string]*knowledge{}
		left  = map[string]bool{}
		said  = said{}
	)
	for _, one := range h.calls {
		k := known[one.claim.ID]
		if k == nil {
			k = &knowledge{}
			known[one.claim.ID] = k
		}
		k.learn(one, h.traits.Granularity)
		since := said.since(one)
		b := &belief{&one.claim, k.ticket, one.ended, k.lease}
		kept := one.verb == "leave" && one.keep > 0 && one.err == nil && k.holds && !left[one.claim.ID] && one.ended < k.lease
		if kept {
			b.until = one.began + one.keep - h.traits.Granularity
		}
		left[one.claim.ID] = left[one.claim.ID] || one.verb == "leave"
		if says := one.err == nil && k.holds && one.verb != "leave"; !says && !kept {
			continue
		}
		tells := one.verb == "enter" || one.verb == "await"
		for _, other := range h.calls {
			// Whose claim was taken out, and came back by a late request, hears from no renewal that it waits.
			over := tells && other.verb != "leave" && other.answered() && other.ended <= since
			if !over && !(kept && other.verb == "leave") && other.mayEnd(b.claim, b.ticket) {
				b.until = min(b.until, other.began)
			}
		}
		if b.from < b.until {
			list = append(list, b)
		}
	}
	return list
}

// believed tells which claims were believed to hold at once that exclude each other, or followed each other with tickets
// that fell.
func (h *history) believed() string {
	list := h.beliefs()
	for _, b := range list {
		weight, with := int64(0), map[string]bool{}
		for _, other := range list {
			if other.from <= b.from && b.from < other.until && !with[other.claim.Record] {
				weight, with[other.claim.Record] = weight+other.claim.Weight, true
			}
			fell := other.until <= b.from && other.claim.Weight == h.capacity && b.ticket <= other.ticket
			if fell && other.claim.ID != b.claim.ID && h.traits.Fencing != driver.NoFencing {
				return fmt.Sprintf("%s holds with ticket %d after %s, which held all with ticket %d", b.claim.Record, b.ticket,
					other.claim.Record, other.ticket)
			}
		}
		if weight > h.capacity {
			return fmt.Sprintf("at %.3f ms these claims are believed to hold, with a weight of %d of %d: %s", millis(b.from),
				weight, h.capacity, strings.Join(slices.Sorted(maps.Keys(with)), ", "))
		}
	}
	return ""
}

// seen reports that a list which began after a time shows the claim with a ticket.
func seen(all []*call, after time.Duration, ticket int64) bool {
	return slices.ContainsFunc(all, func(one *call) bool {
		return one.verb == "list" && one.began >= after &&
			slices.ContainsFunc(one.list, func(shown driver.ClaimInfo) bool { return shown.Ticket == ticket })
	})
}

// goneBySelf tells which claim is said to be gone that had entered, whose lease had not ended, and that nobody took
// out. In a store without order a claim that waits need not be there. A claim may be gone with its session, as where
// the machine stood still, unless it is seen after that.
func (h *history) goneBySelf() string {
	known := map[string]*knowledge{}
	for _, one := range h.calls {
		k := known[one.claim.ID]
		if k == nil {
			k = &knowledge{}
			known[one.claim.ID] = k
		}
		if errors.Is(one.err, driver.ErrGone) && one.verb != "break" && one.ended < k.lease && (k.holds || h.traits.Ordered) {
			taken := h.traits.InSession && errors.Is(one.err, driver.ErrSession) && !seen(h.calls, one.ended, k.ticket)
			taken = taken || slices.ContainsFunc(h.calls, func(other *call) bool {
				return other != one && other.began < one.ended && other.mayEnd(&one.claim, k.ticket)
			})
			if !taken {
				return fmt.Sprintf("a claim that nobody took out is said to be gone:\n\t%v", one)
			}
		}
		k.learn(one, h.traits.Granularity)
	}
	return ""
}
