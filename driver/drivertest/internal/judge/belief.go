package judge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// A belief is a time in which a client may believe that its claim holds: from an answer that says so to the end of the lease
// as the client knows it, or to the start of a call that may end the claim.
type belief struct {
	claim       *driver.Claim
	ticket      int64
	from, until time.Duration
}

// mayEnd reports whether a call may remove a claim from its queue, or keep it.
func (c *Call) mayEnd(claim *driver.Claim, ticket int64) bool {
	if c.Verb == "leave" {
		return c.Claim.ID == claim.ID
	}
	if driver.NotApplied(c.Err) {
		return false
	}
	switch c.Verb {
	case "break":
		return c.Claim.Ticket == 0 || c.Claim.Ticket == ticket // without a ticket, the judge finds out which claim it was
	case "enter":
		return c.Claim.Reclaim && c.Claim.Owner != "" && c.Claim.Owner == claim.Owner && c.Claim.Client != claim.Client
	}
	return false
}

// confirms reports that a call restarted the lease of its claim.
func (c *Call) confirms() bool {
	return c.Err == nil && (c.Verb == "renew" || c.Verb == "enter" && c.Place.Ticket != 0)
}

// lease returns the shortest time that the lease of this call may last. A driver may let a claim in on a prepared lease, up
// to half of which is over. The answer says how much is left, unless it is lost.
func (c *Call) lease() time.Duration {
	least := c.Claim.TTL / 2
	switch {
	case c.Verb != "enter":
	case c.Err != nil:
		return least
	case c.Place.TTL >= least:
		return min(c.Place.TTL, c.Claim.TTL)
	}
	return c.Claim.TTL
}

// A knowledge is the client's knowledge of a claim.
type knowledge struct {
	ticket int64
	holds  bool
	lease  time.Duration // when the lease ends at the earliest
}

// learn adds the answer to a call to the client's knowledge.
func (k *knowledge) learn(one *Call, early time.Duration) {
	before := k.lease
	if one.confirms() {
		k.lease = max(k.lease, one.Began+one.lease()-early)
	}
	switch {
	case one.Err != nil || one.Verb == "leave":
	case one.Verb == "renew": // after its end the claim may be back by a late request, and wait
		k.holds = k.holds && one.Ended < before
	default:
		k.holds = one.Place.Holds
		if one.Place.Ticket != 0 {
			k.ticket = one.Place.Ticket
		}
	}
}

// beliefs returns the times in which claims were believed to hold. A kept claim holds too.
func (h *History) beliefs() []*belief {
	var (
		list  []*belief
		known = map[string]*knowledge{}
		left  = map[string]bool{}
		said  = said{}
	)
	for _, one := range h.Calls {
		k := known[one.Claim.ID]
		if k == nil {
			k = &knowledge{}
			known[one.Claim.ID] = k
		}
		k.learn(one, h.Traits.Granularity)
		since := said.since(one)
		b := &belief{&one.Claim, k.ticket, one.Ended, k.lease}
		kept := one.Verb == "leave" && one.Keep > 0 && one.Err == nil && k.holds && !left[one.Claim.ID] && one.Ended < k.lease
		if kept {
			b.until = one.Began + one.Keep - h.Traits.Granularity
		}
		left[one.Claim.ID] = left[one.Claim.ID] || one.Verb == "leave"
		if says := one.Err == nil && k.holds && one.Verb != "leave"; !says && !kept {
			continue
		}
		tells := one.Verb == "enter" || one.Verb == "await"
		for _, other := range h.Calls {
			// If a claim was removed, and came back by a late request, no renewal shows its client that it waits.
			over := tells && other.Verb != "leave" && other.Answered() && other.Ended <= since
			if !over && !(kept && other.Verb == "leave") && other.mayEnd(b.claim, b.ticket) {
				b.until = min(b.until, other.Began)
			}
		}
		if b.from < b.until {
			list = append(list, b)
		}
	}
	return list
}

// believed returns claims that exclude each other and were believed to hold at once, or that followed each other with
// falling tickets.
func (h *History) believed() string {
	list := h.beliefs()
	for _, b := range list {
		weight, with := int64(0), map[string]bool{}
		for _, other := range list {
			if other.from <= b.from && b.from < other.until && !with[other.claim.Record] {
				weight, with[other.claim.Record] = weight+other.claim.Weight, true
			}
			fell := other.until <= b.from && other.claim.Weight == h.Capacity && b.ticket <= other.ticket
			if fell && other.claim.ID != b.claim.ID && h.Traits.Fencing != driver.NoFencing {
				return fmt.Sprintf("%s holds with ticket %d after %s, which held all with ticket %d", b.claim.Record, b.ticket,
					other.claim.Record, other.ticket)
			}
		}
		if weight > h.Capacity {
			return fmt.Sprintf("at %.3f ms these claims are believed to hold, with a weight of %d of %d: %s", millis(b.from),
				weight, h.Capacity, strings.Join(slices.Sorted(maps.Keys(with)), ", "))
		}
	}
	return ""
}

// seen reports whether a list that began after a time shows the claim with a ticket.
func seen(all []*Call, after time.Duration, ticket int64) bool {
	return slices.ContainsFunc(all, func(one *Call) bool {
		return one.Verb == "list" && one.Began >= after &&
			slices.ContainsFunc(one.List, func(shown driver.ClaimInfo) bool { return shown.Ticket == ticket })
	})
}

// goneBySelf returns a claim that had entered and was reported gone although its lease had not ended and nobody removed it.
// In a store without order, a waiting claim need not be there. A claim may go with its session, for example because the
// machine stood still, unless a later list shows it.
func (h *History) goneBySelf() string {
	known := map[string]*knowledge{}
	for _, one := range h.Calls {
		k := known[one.Claim.ID]
		if k == nil {
			k = &knowledge{}
			known[one.Claim.ID] = k
		}
		if errors.Is(one.Err, driver.ErrGone) && one.Verb != "break" && one.Ended < k.lease && (k.holds || h.Traits.Ordered) {
			taken := h.Traits.InSession && errors.Is(one.Err, driver.ErrSession) && !seen(h.Calls, one.Ended, k.ticket)
			taken = taken || slices.ContainsFunc(h.Calls, func(other *Call) bool {
				return other != one && other.Began < one.Ended && other.mayEnd(&one.Claim, k.ticket)
			})
			if !taken {
				return fmt.Sprintf("a claim that nobody took out is said to be gone:\n\t%v", one)
			}
		}
		k.learn(one, h.Traits.Granularity)
	}
	return ""
}
