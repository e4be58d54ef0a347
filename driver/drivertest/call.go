package drivertest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// A call is one call of a driver, with its answer, as its caller saw it.
type call struct {
	client string
	verb   string
	fault  string // what befell it; empty means nothing
	claim  driver.Claim
	keep   time.Duration // of a leave, or of a claim that is kept and runs out
	began  time.Duration // since the start of the run
	ended  time.Duration
	until  time.Duration // when a lease can no longer run out; 0 means that it always can

	place driver.Place
	list  []driver.ClaimInfo
	err   error
}

// answered reports that the caller knows what became of the call.
func (c *call) answered() bool {
	if c.verb == "expire" {
		return false
	}
	_, capacity := errors.AsType[*driver.CapacityError](c.err)
	return c.err == nil || driver.NotApplied(c.err) && (capacity || errors.Is(c.err, driver.ErrGone))
}

// matters reports that the call tells something of the queue, or may have changed it.
func (c *call) matters() bool {
	switch {
	case c.verb == "await":
		return c.err == nil && c.place.Holds
	case c.answered(), c.verb == "expire":
		return true
	case driver.NotApplied(c.err):
		return false
	}
	return c.verb == "enter" && c.claim.Ticket == 0 || c.verb == "leave" || c.verb == "break"
}

func (c *call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.3f to %9.3f ms, %s: %s", millis(c.began), millis(c.ended), c.client, c.verb)
	if c.claim.ID != "" {
		fmt.Fprintf(&b, " %s", c.claim.Record)
	}
	if c.verb == "enter" {
		fmt.Fprintf(&b, ", %d of %d, ticket %d, try %v, lease %v", c.claim.Weight, c.claim.Capacity, c.claim.Ticket, c.claim.Try, c.claim.TTL)
	}
	if c.verb == "break" {
		fmt.Fprintf(&b, " ticket %d", c.claim.Ticket)
	}
	if c.keep > 0 {
		fmt.Fprintf(&b, ", keep %v", c.keep)
	}
	if c.fault != "" {
		fmt.Fprintf(&b, " (%s)", c.fault)
	}
	switch {
	case c.verb == "expire":
		fmt.Fprint(&b, " or later")
	case c.err != nil:
		fmt.Fprintf(&b, " = %v (%v)", c.err, driver.OutcomeOf(c.err))
	case c.verb == "enter" || c.verb == "await":
		fmt.Fprintf(&b, " = ticket %d, holds %v, %d ahead", c.place.Ticket, c.place.Holds, c.place.Ahead)
	case c.verb == "list" || c.verb == "break":
		var all []string
		for _, l := range c.list {
			all = append(all, fmt.Sprintf("%s ticket %d holds %v left %v", l.Record, l.Ticket, l.Holds, l.Left))
		}
		fmt.Fprintf(&b, " = [%s]", strings.Join(all, "; "))
	default:
		fmt.Fprint(&b, " = done")
	}
	return b.String()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
