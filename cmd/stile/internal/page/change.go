package page

import (
	"fmt"
	"strconv"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/phrase"
)

// A Change is one change in a queue.
type Change struct {
	At   time.Time
	What string // "holds", "waits", "kept", "left" or "free"
	Who  string // nobody if the name is free
}

// Changes returns the differences between two readings of a queue. For the first reading, before is nil, and everything is a
// change.
func Changes(before *stile.Queue, now stile.Queue, at time.Time) (list []Change) {
	was := map[int64]stile.Claim{}
	if before != nil {
		for _, c := range before.Claims {
			was[c.Ticket] = c
		}
	}
	stands := map[int64]bool{}
	for _, c := range now.Claims {
		stands[c.Ticket] = true
	}
	if before != nil {
		for _, c := range before.Claims {
			if !stands[c.Ticket] {
				list = append(list, Change{at, "left", holder(c.Holder)})
			}
		}
	}
	for _, c := range now.Claims {
		old, stood := was[c.Ticket]
		if what := state(c); !stood || what != state(old) {
			list = append(list, Change{at, what, holder(c.Holder)})
		}
	}
	if len(now.Claims) == 0 && (before == nil || len(before.Claims) > 0) {
		list = append(list, Change{at, "free", ""})
	}
	return list
}

func state(c stile.Claim) string {
	switch {
	case c.Left:
		return "kept"
	case c.Holds && c.Remaining < 0:
		return "run out"
	case c.Holds:
		return "holds"
	}
	return "waits"
}

// holder names a holder in full.
func holder(h stile.Holder) string {
	text := Who(h)
	if h.PID != 0 {
		text += ", pid " + strconv.Itoa(h.PID)
	}
	if h.Reason != "" {
		text += " (" + phrase.Printable(h.Reason) + ")"
	}
	return text
}

// Text returns the change without its time.
func (c Change) Text() string {
	if c.Who == "" {
		return c.What
	}
	return fmt.Sprintf("%-7s %s", c.What, c.Who)
}
