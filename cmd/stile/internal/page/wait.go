package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/phrase"
)

// A Wait describes a wait, with the last reading of the queue.
type Wait struct {
	Name   string
	Waited time.Duration
	Most   time.Duration // the longest wait; 0 means for ever
	Ticket int64         // of the waiting claim; 0 if it is not known, or there is none
	Queue  stile.Queue
	Seen   bool // the queue was seen
	Silent bool // the store does not answer
}

// narrow is the number of cells below which the line uses fewer words, so that the holder fits.
const narrow = 72

// Text returns the wait as one line of at most a number of cells, the most important first; 0 means no limit. With clock it
// counts the seconds, for a line that is redrawn; without clock the text changes only with the queue.
func (w *Wait) Text(cells int, clock bool) string {
	name := phrase.Printable(w.Name)
	if cells > 0 {
		name = middle(name, max(8, cells/4))
	}
	short, of := cells > 0 && cells < narrow, " of "
	text := "waiting for " + name
	switch {
	case short:
		text, of = name+": waiting "+Short(w.Waited), "/"
	case clock && w.Most > 0:
		text = "waiting " + Short(w.Waited) + " of " + Short(w.Most) + " for " + name
	case clock:
		text = "waiting " + Short(w.Waited) + " for " + name
	}
	switch why := w.why(clock, of); {
	case why == "":
	case short:
		text += ", " + why
	default:
		text += ": " + why
	}
	if cells > 0 {
		text = Cut(text, cells)
	}
	return text
}

// Why returns the place in the queue, and the blocking holder; "" if neither is known.
func (w *Wait) Why() string { return w.why(false, " of ") }

func (w *Wait) why(clock bool, between string) string {
	if w.Silent {
		return "the store does not answer"
	}
	if !w.Seen {
		return ""
	}
	var parts []string
	if place, of := w.place(); place > 0 {
		parts = append(parts, fmt.Sprintf("place %d%s%d", place, between, of))
	}
	var holders []stile.Claim
	for _, c := range w.Queue.Claims {
		if c.Holds && (w.Ticket == 0 || c.Ticket != w.Ticket) {
			holders = append(holders, c)
		}
	}
	if len(holders) > 0 {
		parts = append(parts, held(holders, clock))
	}
	return strings.Join(parts, ", ")
}

// place returns the claim's place among the waiters, from 1, and the number of waiters; 0 if it is not among them.
func (w *Wait) place() (place, of int) {
	for _, c := range w.Queue.Claims {
		if c.Holds {
			continue
		}
		if of++; c.Ticket == w.Ticket && w.Ticket != 0 {
			place = of
		}
	}
	return place, of
}

// held names the holder: the first of several, since it came before the others.
func held(holders []stile.Claim, clock bool) string {
	first := holders[0]
	by := "held by "
	switch {
	case first.Remaining < 0:
		by = "in the lock-delay after "
	case first.Left:
		by = "kept after "
	case len(holders) > 1:
		by = fmt.Sprintf("held by %d, first ", len(holders))
	}
	h := first.Holder
	var more []string
	if clock {
		more = append(more, "came "+Short(first.Since)+" ago")
	}
	if h.PID != 0 {
		more = append(more, "pid "+strconv.Itoa(h.PID))
	}
	if h.Reason != "" {
		more = append(more, phrase.Printable(h.Reason))
	}
	if len(more) == 0 {
		return by + Who(h)
	}
	return by + Who(h) + " (" + strings.Join(more, ", ") + ")"
}

// Who names a holder in the fewest words that identify it.
func Who(h stile.Holder) string {
	who := h.Owner
	if who == "" {
		who = h.Program
	}
	switch {
	case who == "" && h.Value != "":
		who = "another program (" + h.Value + ")"
	case who == "":
		who = "somebody unknown"
	}
	if h.Principal != "" {
		who += " as " + h.Principal
	}
	if h.Host != "" {
		who += " on " + h.Host
	}
	return phrase.Printable(who)
}

// Short writes a duration with the digits that a person reads at a glance: 7s, 3m20s, 2h5m, 3d4h.
func Short(d time.Duration) string {
	d = max(d, 0)
	seconds, minutes, hours, days := int(d.Seconds()), int(d.Minutes()), int(d.Hours()), int(d.Hours())/24
	two := func(a int, unit string, b int, less string) string {
		if b == 0 {
			return fmt.Sprintf("%d%s", a, unit)
		}
		return fmt.Sprintf("%d%s%d%s", a, unit, b, less)
	}
	switch {
	case minutes == 0:
		return fmt.Sprintf("%ds", seconds)
	case hours == 0:
		return two(minutes, "m", seconds%60, "s")
	case days == 0:
		return two(hours, "h", minutes%60, "m")
	}
	return two(days, "d", hours%24, "h")
}

// Aged returns the queue some time after it was seen, if nobody has come or gone.
func Aged(q stile.Queue, by time.Duration) stile.Queue {
	q.Claims = slices.Clone(q.Claims)
	for i := range q.Claims {
		c := &q.Claims[i]
		c.Since += by
		if c.Remaining > by {
			c.Remaining -= by
		}
	}
	return q
}
