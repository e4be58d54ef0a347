package judge

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Call is one call of a driver, with its answer, as its caller saw it.
type Call struct {
	Client string
	Verb   string
	Fault  string // the trouble on its way; empty means none
	Claim  driver.Claim
	Keep   time.Duration // of a leave, or of a claim that is kept and runs out
	Began  time.Duration // since the start of the run
	Ended  time.Duration
	until  time.Duration // when a lease can no longer run out; 0 means that it always can

	Place driver.Place
	List  []driver.ClaimInfo
	Err   error
}

// Answered reports whether the caller knows the outcome of the call.
func (c *Call) Answered() bool {
	if c.Verb == "expire" {
		return false
	}
	_, capacity := errors.AsType[*driver.CapacityError](c.Err)
	return c.Err == nil || driver.NotApplied(c.Err) && (capacity || errors.Is(c.Err, driver.ErrGone))
}

// matters reports whether the call shows something of the queue, or may have changed it.
func (c *Call) matters() bool {
	switch {
	case c.Verb == "await":
		return c.Err == nil && c.Place.Holds
	case c.Answered(), c.Verb == "expire":
		return true
	case driver.NotApplied(c.Err):
		return false
	}
	return c.Verb == "enter" && c.Claim.Ticket == 0 || c.Verb == "leave" || c.Verb == "break"
}

func (c *Call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.3f to %9.3f ms, %s: %s", millis(c.Began), millis(c.Ended), c.Client, c.Verb)
	if c.Claim.ID != "" {
		fmt.Fprintf(&b, " %s", c.Claim.Record)
	}
	if c.Verb == "enter" {
		fmt.Fprintf(&b, ", %d of %d, ticket %d, try %v, lease %v", c.Claim.Weight, c.Claim.Capacity, c.Claim.Ticket, c.Claim.Try, c.Claim.TTL)
	}
	if c.Verb == "break" {
		fmt.Fprintf(&b, " ticket %d", c.Claim.Ticket)
	}
	if c.Keep > 0 {
		fmt.Fprintf(&b, ", keep %v", c.Keep)
	}
	if c.Fault != "" {
		fmt.Fprintf(&b, " (%s)", c.Fault)
	}
	switch {
	case c.Verb == "expire":
		fmt.Fprint(&b, " or later")
	case c.Err != nil:
		fmt.Fprintf(&b, " = %v (%v)", c.Err, driver.OutcomeOf(c.Err))
	case c.Verb == "enter" || c.Verb == "await":
		fmt.Fprintf(&b, " = ticket %d, holds %v, %d ahead", c.Place.Ticket, c.Place.Holds, c.Place.Ahead)
	case c.Verb == "list" || c.Verb == "break":
		var all []string
		for _, l := range c.List {
			all = append(all, fmt.Sprintf("%s ticket %d holds %v left %v", l.Record, l.Ticket, l.Holds, l.Left))
		}
		fmt.Fprintf(&b, " = [%s]", strings.Join(all, "; "))
	default:
		fmt.Fprint(&b, " = done")
	}
	return b.String()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
